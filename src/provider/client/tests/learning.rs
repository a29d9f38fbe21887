//! Fields refused, paths that lack their version, and what is remembered of them.

use super::*;

fn refused(field: &str) -> Then {
    http(
        400,
        &format!(
            r#"{{"error":{{"message":"Unsupported parameter: '{field}' is not supported with this model.","type":"invalid_request_error","param":"{field}","code":"unsupported_parameter"}}}}"#
        ),
    )
}

struct Home(std::path::PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let name = format!("cluade-client-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Home(dir)
    }

    fn client(&self, config: &Config) -> Client {
        Client::new(config, Some(self.0.to_str().unwrap().as_bytes())).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_refused_field_is_left_out_and_remembered() {
    let home = Home::new("adapt");
    let (mut world, mut eyes) = World::new(vec![refused("thinking")]);
    let mut client = home.client(&config(1, 0));
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(world.steps(), "a:first a:first");
    assert!(world.bodies[0].contains("\"thinking\""));
    assert!(!world.bodies[1].contains("\"thinking\""));
    assert!(
        world.notices().contains("drop thinking"),
        "{}",
        world.notices()
    );
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let mut again = home.client(&config(1, 0));
    ask(&mut again, &mut world, &mut eyes).unwrap();
    assert!(!world.bodies[2].contains("\"thinking\"") && !world.bodies[3].contains("\"thinking\""));
    // Another model is another matter; and what was learned can be forgotten.
    again.set_model("else");
    ask(&mut again, &mut world, &mut eyes).unwrap();
    assert!(world.bodies[4].contains("\"thinking\"") && world.bodies[4].contains("\"else\""));
    assert_eq!(again.forget(), Ok(false));
    assert_eq!(client.forget(), Ok(true));
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(world.bodies[5].contains("\"thinking\""));
}

#[test]
fn refusals_that_do_not_end() {
    let (mut world, mut eyes) = World::letters("");
    world.rest = refused("thinking");
    let mut client = Client::new(&config(1, 1), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(
        (got.class, world.steps().as_str()),
        (Class::Fatal, "a:first a:first")
    );
    // What didn't help isn't kept.
    world.script = vec![good()];
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(world.bodies[2].contains("\"thinking\""));

    let (mut world, mut eyes) = World::new(vec![refused("frobnicate")]);
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(
        (got.class, world.steps().as_str()),
        (Class::Fatal, "a:first")
    );
}

#[test]
fn several_fields_refused_one_after_the_other() {
    let script = vec![
        refused("max_tokens"),
        refused("stream_options"),
        refused("stream"),
    ];
    let (mut world, mut eyes) = World::new(script);
    let json = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    world.rest = http(200, json);
    let mut client = Client::new(&config(1, 0), None).unwrap();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let last = world.bodies.last().unwrap();
    assert!(
        last.ends_with(r#""reasoning_effort":"max","stream":false}"#)
            || last.ends_with(r#""max_completion_tokens":131072,"stream":false}"#),
        "{last}"
    );
    assert_eq!(world.log.borrow().shown, "hi");
}

#[test]
fn a_home_that_can_not_be_written_is_a_warning() {
    let home = Home::new("readonly");
    std::fs::write(&home.0, "not a directory").unwrap();
    let (mut world, mut eyes) = World::new(vec![refused("thinking")]);
    let mut client = home.client(&config(1, 0));
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(
        world.notices().contains("endpoints.json"),
        "{}",
        world.notices()
    );
    let _ = std::fs::remove_file(&home.0);
}

#[test]
fn a_path_without_its_version() {
    let home = Home::new("v1");
    let mut bare = config(1, 0);
    bare.base_url = "http://a.example?k=v".into();
    let (mut world, mut eyes) = World::new(vec![http(404, "404 page not found")]);
    let mut client = home.client(&bare);
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let mut again = home.client(&bare);
    ask(&mut again, &mut world, &mut eyes).unwrap();
    let with = "POST http://a.example/v1/chat/completions?k=v";
    assert_eq!(
        world.urls,
        ["POST http://a.example/chat/completions?k=v", with, with]
    );

    // Not there either: both places are named, nothing is learned.
    let other = Home::new("v1-none");
    let (mut world, mut eyes) = World::letters("");
    world.rest = http(404, "404 page not found");
    let mut client = other.client(&bare);
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    let count = got.message.matches("http://a.example").count();
    assert!(
        count == 2 && got.message.contains("/v1/chat"),
        "{}",
        got.message
    );
    assert!(!got.message.contains("k=v"));
    assert!(!other.0.exists());

    // A version is there already: no guessing.
    let (mut world, mut eyes) = World::new(vec![http(404, "404 page not found")]);
    let mut client = Client::new(&config(1, 0), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(world.urls.len(), 1);
    assert!(
        got.message.contains("http://a.example/v1/chat/completions"),
        "{}",
        got.message
    );
}
