//! What a child tells, one line for each fact, written only after the fact.

use std::io::{self, Write};

/// In front of every line, because the test harness prints too.
const MARK: &str = "@ ";

/// Where an account stands: how many events it has, and the digest of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) events: u64,
    pub(crate) digest: u64,
}

/// An acknowledged command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) account: u64,
    pub(crate) client: u64,
    pub(crate) command: u64,
    /// Right after the command's own events.
    pub(crate) position: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Opening,
    Opened,
    Recovered { account: u64, position: Position },
    Replied(Reply),
    SnapshotSaved { account: u64 },
    EventsDeleted { account: u64 },
    SnapshotRoundEnded { account: u64 },
}

impl Line {
    /// Gives the line to the kernel; from there a kill cannot take it back.
    pub(crate) fn tell(self) {
        let (name, numbers) = match self {
            Self::Opening => ("opening", vec![]),
            Self::Opened => ("opened", vec![]),
            Self::Recovered { account, position } => {
                ("recovered", vec![account, position.events, position.digest])
            }
            Self::Replied(Reply {
                account,
                client,
                command,
                position,
            }) => (
                "replied",
                vec![account, client, command, position.events, position.digest],
            ),
            Self::SnapshotSaved { account } => ("saved", vec![account]),
            Self::EventsDeleted { account } => ("deleted", vec![account]),
            Self::SnapshotRoundEnded { account } => ("ended", vec![account]),
        };
        // A line feed in front, because the harness begins lines that it does not end; one call, so that lines do not mix.
        let mut line = format!("\n{MARK}{name}");
        for number in numbers {
            line.push_str(&format!(" {number}"));
        }
        line.push_str(" .\n");
        io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }

    /// `None` for what is no line of ours, or only the beginning of one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix(MARK)?.strip_suffix(" .")?;
        let mut words = text.split(' ');
        let name = words.next()?;
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        Some(match (name, &numbers[..]) {
            ("opening", []) => Self::Opening,
            ("opened", []) => Self::Opened,
            ("recovered", &[account, events, digest]) => Self::Recovered {
                account,
                position: Position { events, digest },
            },
            ("replied", &[account, client, command, events, digest]) => Self::Replied(Reply {
                account,
                client,
                command,
                position: Position { events, digest },
            }),
            ("saved", &[account]) => Self::SnapshotSaved { account },
            ("deleted", &[account]) => Self::EventsDeleted { account },
            ("ended", &[account]) => Self::SnapshotRoundEnded { account },
            _ => panic!("no such line: {text}"),
        })
    }
}
