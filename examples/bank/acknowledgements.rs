//! What clients were told, in a file beside the journal: the journal is checked against it after each recovery.
//!
//! Lines of text: `accounts N` once the bank has N accounts, `ACCOUNT CLIENT NUMBER` for each command that was
//! acknowledged. A line is written after the acknowledgement, by one call to the operating system, so that `kill -9`
//! loses at most one line per client and the file is never ahead of the journal. Power loss may take its newest lines.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use super::account::{AccountId, Done, Request};

pub struct Acknowledgements {
    file: File,
}

/// The content of the file.
#[derive(Default)]
pub struct Acknowledged {
    /// How many accounts there are.
    pub accounts: u32,
    pub commands: u64,
    /// Count and last number of the commands of each client at each account.
    pub done: BTreeMap<(AccountId, u32), Done>,
    /// The length of all whole lines.
    bytes: u64,
}

impl Acknowledgements {
    /// Reads the file and goes on writing at its end. One process at a time, as the journal's lock sees to.
    pub fn open(path: &Path) -> io::Result<(Self, Acknowledged)> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let acknowledged = Acknowledged::read(path)?;
        // A line that a power loss has cut.
        file.set_len(acknowledged.bytes)?;
        Ok((Self { file }, acknowledged))
    }

    /// The bank has this many accounts now.
    pub fn log_accounts(&self, accounts: u32) -> io::Result<()> {
        (&self.file).write_all(format!("accounts {accounts}\n").as_bytes())?;
        self.file.sync_all()
    }

    /// The client has got its answer.
    pub fn log(&self, account: AccountId, by: Request) -> io::Result<()> {
        (&self.file).write_all(format!("{account} {} {}\n", by.client, by.number).as_bytes())
    }
}

impl Acknowledged {
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut acknowledged = Self::default();
        let mut lines = BufReader::new(File::open(path)?);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            acknowledged.add(line.trim_end()).ok_or_else(|| {
                let what = format!(
                    "{} has a foreign line: {line:?}; use another folder",
                    path.display()
                );
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?;
            acknowledged.bytes += line.len() as u64;
            line.clear();
        }
        Ok(acknowledged)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        if let Some(accounts) = line.strip_prefix("accounts ") {
            self.accounts = accounts.parse().ok()?;
            return Some(());
        }
        let mut fields = line.split(' ');
        let key = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let number = fields.next()?.parse().ok()?;
        let done = self.done.entry(key).or_default();
        done.count += 1;
        done.last = done.last.max(number);
        self.commands += 1;
        Some(())
    }
}
