//! Calls to a server that is well.

use super::*;

#[tokio::test]
async fn a_function_is_given_the_prefix_and_answers_bytes() {
    let (_server, connection) = served(Options::default()).await;
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
}
