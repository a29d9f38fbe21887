//! A home, a project and an environment for the behaviour tables of the configuration.

mod sources;
mod values;

use std::path::PathBuf;

use super::*;
use crate::cli::Args;

/// A home and a project in a directory of their own.
struct World {
    root: PathBuf,
    env: Vec<(&'static str, String)>,
}

impl World {
    fn new(name: &str) -> Self {
        let root =
            std::env::temp_dir().join(format!("cluade-config-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("user/.cluade")).unwrap();
        std::fs::create_dir_all(root.join("project/.cluade")).unwrap();
        let root = root.canonicalize().unwrap();
        let user = root.join("user").to_str().unwrap().to_owned();
        World {
            root,
            env: vec![("HOME", user)],
        }
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn home(&self, text: &str) -> &Self {
        self.file("user/.cluade/config.json", text);
        self
    }

    fn project(&self, text: &str) -> &Self {
        self.file("project/.cluade/config.json", text);
        self
    }

    fn load_in(&self, dir: &str, args: &Args) -> Result<Loaded, String> {
        let env = |name: &[u8]| {
            let (_, value) = self.env.iter().rev().find(|(n, _)| n.as_bytes() == name)?;
            (!value.is_empty()).then(|| value.clone().into_bytes())
        };
        let mut out = Loaded::default();
        let result = load(args, self.path(dir).as_bytes(), &env, &mut out);
        result.map(|()| out).map_err(text)
    }

    fn try_load(&self, args: &Args) -> Result<Loaded, String> {
        self.load_in("project", args)
    }

    fn load(&self, args: &Args) -> Loaded {
        match self.try_load(args) {
            Ok(loaded) => loaded,
            Err(e) => panic!("{e}"),
        }
    }

    fn warnings(&self, text: &str) -> Vec<String> {
        texts(self.home(text).load(&Args::default()).warnings)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn args(line: &[&str]) -> Args {
    match crate::cli::parse(line.iter().map(Into::into).collect()) {
        Ok(args) => args,
        Err(e) => panic!("{}", text(e)),
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn texts(list: Vec<Vec<u8>>) -> Vec<String> {
    list.into_iter().map(text).collect()
}
