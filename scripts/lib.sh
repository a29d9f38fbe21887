# Shared by the scripts in this folder; sourced with the repository as working directory.

die() { echo "${0##*/}: $*" >&2; exit 1; }

# What makes the binary small: no unwinding, no panic texts, no Debug output, no relocations.
size_flags="-Zunstable-options -Cpanic=immediate-abort -Zlocation-detail=none -Zfmt-debug=none \
 -Crelocation-model=static -Cforce-unwind-tables=no -Ctarget-feature=+crt-static -Clink-self-contained=no"

# MIPS alone: fill branch delay slots by looking past the branch too, and jump instead of call at a function's end. Both are
# off in LLVM's back end by default; the unit tests pass with them under qemu. 17 KB of 640.
mips_flags="-Cllvm-args=-disable-mips-df-succbb-search=false -Cllvm-args=-disable-mips-df-forward-search=false \
 -Cllvm-args=-mips-tail-calls=1"

# Installs Debian packages when the machine has apt and we may; otherwise names what is missing.
need_packages() {
  missing=
  for p in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
  done
  [ -z "$missing" ] && return 0
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || die "please install:$missing"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086
  apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $missing >/dev/null 2>&1 || {
    apt-get -qq -o DPkg::Lock::Timeout=600 update >/dev/null
    apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $missing >/dev/null
  }
}

# Sets ZIG.
find_zig() {
  [ -n "${ZIG-}" ] && return 0
  if command -v zig >/dev/null; then ZIG=zig; return 0; fi
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/cluade-zig
  if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import ziglang' 2>/dev/null; then
    python3 -m venv "$venv" && "$venv/bin/pip" -q --disable-pip-version-check install ziglang ||
      die "no zig: put it into PATH, set ZIG, or let python3 -m venv and pip install ziglang"
  fi
  ZIG=$(echo "$venv"/lib/python3*/site-packages/ziglang/zig)
}

# Sets CARGO and RUSTC to a compiler that has its library's sources, and lets it use unstable flags.
find_rust_with_sources() {
  if command -v rustup >/dev/null && rustup component list --toolchain nightly 2>/dev/null |
     grep -q '^rust-src.*(installed)'; then
    CARGO=$(rustup which --toolchain nightly cargo) RUSTC=$(rustup which --toolchain nightly rustc)
  else
    command -v apt-get >/dev/null ||
      die "no compiler with library sources: rustup toolchain install nightly --component rust-src"
    need_packages rustc-web cargo-web rust-web-src
    CARGO=/usr/bin/cargo RUSTC=/usr/bin/rustc
  fi
  export RUSTC RUSTC_BOOTSTRAP=1
}
