//! Users and passwords.

use super::*;

fn locked_server() -> RedisServer {
    let users = vec!["user crawler on >se@cret/1 ~* &* +@all".to_owned()];
    RedisServer::start(Options { users, ..Options::default() })
}

fn with_file(url: String, file: std::path::PathBuf) -> Connection {
    let settings = RedisSettings { password_file: Some(file), ..settings(url) };
    Connection::with_timing(&settings, QUICK).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_and_password_are_taken_from_the_address() {
    let server = locked_server();
    let connection = quick(server.url_for("crawler", "se%40cret%2F1"));
    connection.load_library("tests", LIBRARY).await.unwrap();
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
    assert!(server.command(&["CLIENT", "LIST"]).unwrap().contains("user=crawler"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_without_naming_it() {
    let server = locked_server();
    for (user, password) in [("crawler", "wrong-one"), ("nobody", "wrong-one"), ("crawler", "")] {
        let fault = echo(&quick(server.url_for(user, password))).await;
        assert_fault(&fault, Fault::WrongPassword, &["does not accept user and password"]);
        assert!(!fault.unwrap_err().to_string().contains("wrong-one"));
    }
    server.command(&["CONFIG", "SET", "requirepass", "needed"]);
    assert_fault(&echo(&quick(server.url())).await, Fault::WrongPassword, &["NOAUTH"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changes_is_read_again() {
    let server = locked_server();
    let file = server.directory().join("password");
    std::fs::write(&file, "se@cret/1\n").unwrap();
    let connection = with_file(format!("redis://crawler@127.0.0.1:{}", server.port()), file.clone());
    connection.load_library("tests", LIBRARY).await.unwrap();

    server.command(&["ACL", "SETUSER", "crawler", "resetpass", ">another"]);
    server.command(&["CLIENT", "KILL", "USER", "crawler"]);
    loss_seen(&connection).await;
    // The file is late, as files of Secrets are.
    let call = tokio::spawn(async move { echo(&connection).await });
    server.wait_for(&["INFO", "errorstats"], "errorstat_WRONGPASS");
    assert!(!call.is_finished());
    std::fs::write(&file, "another").unwrap();
    assert_eq!(call.await.unwrap().unwrap(), "trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_file_that_is_no_good_is_named() {
    let server = locked_server();
    let connection = |name: &str| with_file(server.url(), server.directory().join(name));
    assert_fault(&echo(&connection("missing")).await, Fault::Settings, &["missing", "No such file"]);
    std::fs::write(server.directory().join("empty"), "\n").unwrap();
    assert_fault(&echo(&connection("empty")).await, Fault::Settings, &["/empty", "it is empty"]);
    std::fs::write(server.directory().join("long"), "x".repeat(100_000)).unwrap();
    assert_fault(&echo(&connection("long")).await, Fault::Settings, &["/long", "it is too long"]);
}

#[test]
fn secrets_are_not_shown() {
    let settings = settings("redis://crawler:secret@localhost:1/2".to_owned());
    let connection = Connection::new(&settings).unwrap();
    let shown = format!("{connection:?}{settings:?}");
    assert!(shown.contains("localhost:1") && !shown.contains("secret") && !shown.contains("crawler"), "{shown}");
}
