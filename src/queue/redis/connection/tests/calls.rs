//! Calls to a server that is well.

use futures_util::future::join_all;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_is_given_the_prefix_and_answers_bytes() {
    let (_server, connection) = served(Options::default()).await;
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
    let bytes = connection.call("echo", &[&[0, 255, 10, 13]]).await.unwrap();
    assert_eq!(bytes, b"trawler:{it}: \0\xff\n\r");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_callers_share_one_connection() {
    let (server, connection) = served(Options::default()).await;
    let copies: Vec<Connection> = (0..100).map(|_| connection.clone()).collect();
    let mut counts: Vec<u32> = join_all(copies.iter().map(async |connection| {
        let count = connection.call("count", &[]).await.unwrap();
        String::from_utf8(count).unwrap().parse::<u32>().unwrap()
    }))
    .await;
    counts.sort_unstable();
    assert_eq!(counts, (1..=100).collect::<Vec<_>>());
    // The other one asks.
    assert!(server.command(&["INFO", "clients"]).unwrap().contains("connected_clients:2\r"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_is_loaded_only_if_it_is_another_one() {
    let (server, connection) = served(Options::default()).await;
    connection.load_library("tests", LIBRARY).await.unwrap();
    let other = LIBRARY.replace("name=tests", "name=others").replace("function_name='", "function_name='other_");
    let other = other.replace("register_function('", "register_function('other_");
    connection.load_library("others", &other).await.unwrap();
    let loads = server.command(&["INFO", "commandstats"]).unwrap();
    assert!(loads.contains("cmdstat_function|load:calls=2,"), "{loads}");

    connection.load_library("tests", &LIBRARY.replace("' '", "'+'")).await.unwrap();
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}:+hello");
    assert_eq!(connection.call("other_echo", &[b"hello"]).await.unwrap(), b"trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_of_the_machine_will_do() {
    let (server, _connection) = served(Options::default()).await;
    let connection = quick(format!("unix://{}", server.socket().display()));
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
    let missing = quick("unix:///nowhere/at/all".to_owned());
    assert_fault(&echo(&missing).await, Fault::NotSent, &["/nowhere/at/all", "there is no such socket"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_inside_a_function_is_told_with_its_place() {
    let (server, connection) = served(Options::default()).await;
    let fault = connection.call("fail", &[]).await;
    let at = format!("127.0.0.1:{}", server.port());
    assert_fault(&fault, Fault::Script, &[&at, "no such thing", "user_function:9"]);
    assert_fault(&connection.call("number", &[]).await, Fault::Script, &["'number' did not answer a string"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_is_missing_is_named() {
    let (_server, connection) = served(Options::default()).await;
    assert_fault(&connection.call("nowhere", &[]).await, Fault::FunctionMissing, &["'nowhere'"]);
}
