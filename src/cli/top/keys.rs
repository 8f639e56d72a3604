//! What a person presses.

use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::UnboundedSender;

use crate::local::top::Key;

/// How often it is looked whether the program is about to end.
const LOOK: Duration = Duration::from_millis(100);

/// What came from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Pressed {
    /// A key.
    Key(Key),
    /// Ctrl-C.
    Interrupt,
    /// The terminal has another size.
    Resized,
}

/// Reads what is pressed until nobody listens any more, or the terminal is gone.
pub(in crate::cli) fn read(pressed: &UnboundedSender<Pressed>) {
    while !pressed.is_closed() {
        match event::poll(LOOK) {
            Ok(false) => {}
            Ok(true) => match event::read() {
                Ok(event) => {
                    if let Some(event) = meaning(&event) {
                        pressed.send(event).unwrap_or_default();
                    }
                }
                Err(_) => return,
            },
            Err(_) => return,
        }
    }
}

fn meaning(event: &Event) -> Option<Pressed> {
    let key = match event {
        Event::Resize(..) => return Some(Pressed::Resized),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Pressed::Interrupt);
    }
    Some(Pressed::Key(match key.code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Esc => Key::Escape,
        KeyCode::Char(character) => Key::Char(character),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let pressed = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| pressed(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Up), Some(Pressed::Key(Key::Up)));
        assert_eq!(plain(KeyCode::Down), Some(Pressed::Key(Key::Down)));
        assert_eq!(plain(KeyCode::Char('q')), Some(Pressed::Key(Key::Char('q'))));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Pressed::Interrupt));
        assert_eq!(pressed(KeyCode::Char('f'), KeyModifiers::CONTROL), None, "Ctrl-F does not freeze");
        assert_eq!(plain(KeyCode::F(1)), None);
        assert_eq!(meaning(&Event::Resize(80, 24)), Some(Pressed::Resized));
        let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(meaning(&Event::Key(released)), None);
    }
}
