//! Terminals.
#![allow(unsafe_code)]

/// Whether `fd` is a terminal.
pub fn is_tty(fd: i32) -> bool {
    // SAFETY: isatty takes any number.
    unsafe { libc::isatty(fd) == 1 }
}

/// Columns and rows of the terminal on `fd`; `None` when it does not say (a serial console reports 0×0).
pub fn size(fd: i32) -> Option<(u16, u16)> {
    // SAFETY: TIOCGWINSZ fills the winsize it is given.
    unsafe {
        let mut w: libc::winsize = std::mem::zeroed();
        (libc::ioctl(fd, libc::TIOCGWINSZ, &mut w) == 0 && w.ws_col > 0 && w.ws_row > 0)
            .then_some((w.ws_col, w.ws_row))
    }
}

/// The terminal settings of a descriptor, to be put back.
#[derive(Clone, Copy)]
pub struct Saved {
    fd: i32,
    termios: libc::termios,
}

/// Saves the settings of the terminal on `fd`; `None` when it is none.
pub fn save(fd: i32) -> Option<Saved> {
    // SAFETY: tcgetattr fills the termios it is given.
    unsafe {
        let mut termios: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(fd, &mut termios) == 0).then_some(Saved { fd, termios })
    }
}

impl Saved {
    /// Puts the settings back after pending output is written. Typed input stays.
    pub fn restore(&self) {
        // SAFETY: the termios came from tcgetattr.
        unsafe { libc::tcsetattr(self.fd, libc::TCSADRAIN, &self.termios) };
    }
}

/// Drops what was typed on the terminal `fd` and not read yet.
pub fn flush_input(fd: i32) {
    // SAFETY: plain call; a non-terminal gives an error nobody needs.
    unsafe { libc::tcflush(fd, libc::TCIFLUSH) };
}
