//! `trawler top`: a screen and a moment give one frame; keys and samples give one screen.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use trawler::local::queue::{AskError, Frozen};
use trawler::local::top::{Act, Key, Sample, Screen, View, page, sample};
use trawler::queue::{Queue, QueueError, SettleResult};
use trawler::task::RunId;

use crate::support::busy_queue::{BusyQueue, HOSTILE, page as task};

const SERVER: &str = "redis://queue.example:6379";

fn screen() -> Screen {
    Screen::new("default", SERVER, None)
}

async fn look(busy: &BusyQueue, screen: &mut Screen) {
    let sample = sample(busy.queue.as_ref(), screen.selected(), busy.now()).await;
    screen.take(sample, busy.now());
}

/// The busy queue as it is seen after 3.25 s in which thirteen tasks were done.
async fn seen() -> (BusyQueue, Screen) {
    let busy = BusyQueue::busy().await;
    let mut screen = screen();
    look(&busy, &mut screen).await;
    let holder = busy.join("federation-7", 3, "crawler-d").await;
    busy.push("federation-7", (10..22).map(|number| task("harbour", number)).collect()).await;
    // The task that was in a crash comes first, and alone.
    for count in [1, 8, 4] {
        let leased = busy.claim(&holder, 20).await;
        assert_eq!(leased.len(), count);
        for leased in leased {
            busy.pass_ms(250);
            busy.settle(&holder, &leased, SettleResult::Done { feedback: Vec::new() }).await;
        }
    }
    busy.push("federation-7", vec![task("harbour", 30)]).await;
    look(&busy, &mut screen).await;
    (busy, screen)
}

fn draw(screen: &Screen, busy: &BusyQueue, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let view = View { screen, now: busy.now(), colours: true, is_live: true };
    terminal.draw(|frame| frame.render_widget(view, frame.area())).unwrap();
    terminal
}

/// A frame as a terminal shows it.
fn drawn(screen: &Screen, busy: &BusyQueue, width: u16, height: u16) -> String {
    draw(screen, busy, width, height).backend().to_string()
}

fn unreachable() -> AskError {
    let why = "the queue's Redis at queue.example:6379 can't be reached (connection refused); start it, or see that \
               --redis names it";
    AskError::Queue(QueueError::Unreachable { why: why.into() })
}

#[tokio::test]
async fn a_frame_fits_a_small_terminal() {
    let (busy, screen) = seen().await;
    insta::assert_snapshot!("top_80x24", drawn(&screen, &busy, 80, 24));
}

#[tokio::test]
async fn a_frame_fills_a_large_terminal() {
    let (busy, screen) = seen().await;
    insta::assert_snapshot!("top_120x40", drawn(&screen, &busy, 120, 40));
}

#[tokio::test]
async fn one_frame_as_plain_text_has_no_keys_and_no_blank_end() {
    let (busy, screen) = seen().await;
    let text = page(&screen, busy.now(), 120, 60);
    assert!(!text.contains("quit") && !text.contains('\u{1b}'), "{text}");
    insta::assert_snapshot!("top_once", text);
}

#[tokio::test]
async fn an_instance_without_runs_is_shown_as_such() {
    let empty = BusyQueue::empty();
    let mut screen = screen();
    assert!(drawn(&screen, &empty, 80, 24).contains("trawler top  connecting"));
    look(&empty, &mut screen).await;
    assert_eq!(
        page(&screen, empty.now(), 120, 40),
        "trawler top  no runs  2027-01-15T08:00:00Z  default at redis://queue.example:6379\n"
    );
    for key in [Key::Up, Key::Down, Key::Char('f'), Key::Char('y')] {
        assert_eq!(screen.press(key), Act::Draw, "there is nothing to choose");
    }
}

#[tokio::test]
async fn a_server_that_can_not_be_reached_is_named_and_what_was_seen_stays() {
    let (busy, mut screen) = seen().await;
    busy.pass_ms(5_000);
    screen.take(Err(unreachable()), busy.now());
    busy.pass_ms(7_000);
    screen.take(Err(unreachable()), busy.now());
    insta::assert_snapshot!("top_unreachable", drawn(&screen, &busy, 80, 24));
    look(&busy, &mut screen).await;
    assert!(!drawn(&screen, &busy, 80, 24).contains("can't be reached"));
}

#[tokio::test]
async fn a_server_that_was_never_reached_is_named() {
    let busy = BusyQueue::empty();
    let mut screen = screen();
    screen.take(Err(unreachable()), busy.now());
    busy.pass_ms(3_000);
    insta::assert_snapshot!("top_never_reached", page(&screen, busy.now(), 80, 24));
}

#[tokio::test]
async fn a_queue_that_was_lost_is_said_to_be_and_the_one_that_is_there_now_is_shown() {
    let (busy, mut screen) = seen().await;
    let lost = QueueError::Lost { run: RunId::from(""), why: "the server was emptied".into() };
    screen.take(Err(AskError::Queue(lost)), busy.now());
    assert!(page(&screen, busy.now(), 80, 24).contains("\nthe queue was lost: the server was emptied\n"));
    let anew = BusyQueue::empty();
    look(&anew, &mut screen).await;
    assert!(page(&screen, busy.now(), 80, 24).starts_with("trawler top  no runs"));
}

#[tokio::test]
async fn names_that_are_long_or_hostile_harm_nothing() {
    let busy = BusyQueue::empty();
    let long = "a-very-long-name-".repeat(20);
    for name in [HOSTILE, &*long] {
        busy.open(name, &[(name, "gentle")]).await;
        busy.push(name, (0..9).map(|number| task(name, number)).collect()).await;
        busy.join(name, 0, name).await;
        let holder = busy.join(name, 1, name).await;
        if name == HOSTILE {
            busy.claim(&holder, 1).await;
        }
    }
    let mut screen = Screen::new(HOSTILE, HOSTILE, Some(RunId::from(HOSTILE)));
    look(&busy, &mut screen).await;
    screen.acted(&Ok(Frozen { run: RunId::from(HOSTILE), frozen: true, leased: 0 }));
    let small = drawn(&screen, &busy, 80, 24);
    insta::assert_snapshot!("top_hostile", small);
    screen.press(Key::Char('f'));
    screen.take(Err(AskError::Usage(HOSTILE.to_owned())), busy.now());
    let covered = drawn(&screen, &busy, 80, 24);
    for frame in [small, covered, drawn(&screen, &busy, 120, 40)] {
        assert!(frame.contains("evil�[2J"), "{frame}");
        let is_harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202E}';
        assert!(!frame.contains(is_harmful), "{frame:?}");
    }
}

#[tokio::test]
async fn terminals_of_any_size_get_a_frame() {
    let (busy, mut screen) = seen().await;
    for size in 0..30 {
        for key in [Key::Char('?'), Key::Escape, Key::Char('f'), Key::Escape] {
            screen.press(key);
            draw(&screen, &busy, size, 60);
            draw(&screen, &busy, 150, size);
            draw(&screen, &busy, 2 * size, size);
        }
    }
}

#[tokio::test]
async fn the_selected_run_is_always_in_sight() {
    let busy = BusyQueue::empty();
    for number in 0..50 {
        busy.open(&format!("run-{number:02}"), &[("harbour", "open")]).await;
    }
    let mut screen = screen();
    look(&busy, &mut screen).await;
    for number in 0..50 {
        let frame = drawn(&screen, &busy, 80, 24);
        assert!(frame.contains(&format!("> run-{number:02}")), "{frame}");
        assert_eq!(screen.press(Key::Down), if number < 49 { Act::Look } else { Act::Draw });
        look(&busy, &mut screen).await;
    }
    assert_eq!(screen.press(Key::Char('k')), Act::Look);
    assert_eq!(screen.selected(), Some(&RunId::from("run-48")));
}

#[tokio::test]
async fn a_sample_of_a_run_that_is_no_longer_selected_shows_no_details() {
    let (busy, mut screen) = seen().await;
    let late = sample(busy.queue.as_ref(), screen.selected(), busy.now()).await;
    assert_eq!(screen.press(Key::Char('j')), Act::Look);
    assert!(screen.lacks_details());
    screen.take(late, busy.now());
    assert!(screen.lacks_details());
    assert!(!drawn(&screen, &busy, 80, 24).contains("Lanes of federation-7"));
    look(&busy, &mut screen).await;
    assert!(!screen.lacks_details());
}

#[tokio::test]
async fn when_the_selected_run_ends_another_one_is_selected() {
    let (busy, mut screen) = seen().await;
    assert_eq!(screen.selected(), Some(&RunId::from("federation-7")));
    busy.queue.close(&RunId::from("federation-7")).await.unwrap();
    look(&busy, &mut screen).await;
    assert_eq!(screen.selected(), Some(&RunId::from("federation-8")));
}

#[tokio::test]
async fn freezing_and_thawing_ask_first() {
    let (busy, mut screen) = seen().await;
    let run = || RunId::from("federation-7");
    assert_eq!(screen.press(Key::Char('f')), Act::Draw);
    insta::assert_snapshot!("top_freeze", drawn(&screen, &busy, 80, 24));
    assert_eq!(screen.press(Key::Char('y')), Act::SetFrozen { run: run(), frozen: true });
    screen.press(Key::Char('t'));
    assert!(drawn(&screen, &busy, 80, 24).contains("Thaw federation-7?"));
    assert_eq!(screen.press(Key::Char('y')), Act::SetFrozen { run: run(), frozen: false });
    for other in [Key::Char('n'), Key::Escape, Key::Down, Key::Char(' ')] {
        screen.press(Key::Char('f'));
        assert_eq!(screen.press(other), Act::Draw, "{other:?} is no");
        assert_eq!(screen.press(Key::Char('y')), Act::Draw, "nothing is asked any more");
        assert_eq!(screen.selected(), Some(&run()));
    }
    screen.press(Key::Char('f'));
    assert_eq!(screen.press(Key::Char('q')), Act::Quit);
}

#[tokio::test]
async fn what_became_of_a_freeze_is_said_until_another_run_is_selected() {
    let (busy, mut screen) = seen().await;
    screen.acted(&Ok(Frozen { run: RunId::from("federation-7"), frozen: true, leased: 4 }));
    assert!(drawn(&screen, &busy, 80, 24).contains("federation-7 is frozen"));
    screen.acted(&Err(unreachable()));
    assert!(drawn(&screen, &busy, 80, 24).contains("can't be reached"));
    screen.press(Key::Down);
    assert!(!drawn(&screen, &busy, 80, 24).contains("can't be reached"));
}

#[tokio::test]
async fn help_names_the_keys_and_any_key_closes_it() {
    let (busy, mut screen) = seen().await;
    screen.press(Key::Char('?'));
    insta::assert_snapshot!("top_help", drawn(&screen, &busy, 80, 24));
    assert_eq!(screen.press(Key::Char('x')), Act::Draw);
    assert!(!drawn(&screen, &busy, 80, 24).contains("Ctrl-C"));
}

#[tokio::test]
async fn speed_is_taken_over_the_last_samples_and_begins_anew_with_the_run() {
    let (busy, mut screen) = seen().await;
    let rate = |screen: &Screen| {
        let text = page(screen, busy.now(), 120, 60);
        let row = text.lines().find(|line| line.starts_with('>')).unwrap().to_owned();
        row.split_whitespace().nth(8).unwrap().to_owned()
    };
    assert_eq!(rate(&screen), "4.0", "thirteen in 3.25 s");
    for _ in 0..10 {
        busy.pass_ms(1_000);
        look(&busy, &mut screen).await;
    }
    assert_eq!(rate(&screen), "0.0", "nothing was done in the last ten");
    let once: Sample = sample(busy.queue.as_ref(), None, busy.now()).await.unwrap();
    let mut anew = once.clone();
    anew.at = once.at + Duration::from_secs(1);
    anew.runs[0].ledger.done = 1;
    screen.take(Ok(anew), busy.now());
    assert_eq!(rate(&screen), "-", "the run was opened anew");
}
