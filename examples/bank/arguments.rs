//! The command line.

use std::{env, ffi::OsString, path::PathBuf, str::FromStr};

use lexopt::{Arg, Parser, ValueExt};

pub struct Arguments {
    pub data: PathBuf,
    pub accounts: Option<u32>,
    pub events: u64,
    pub seed: u64,
    pub json: bool,
    pub verify: bool,
}

pub const DEFAULT_ACCOUNTS: u32 = 2_000;
const DEFAULT_EVENTS: u64 = 300_000;

pub const NAME: &str = env!("CARGO_CRATE_NAME");

pub const USAGE: &str = concat!(
    "usage: ",
    env!("CARGO_CRATE_NAME"),
    " [OPTIONS]

Accounts take deposits, withdrawals and transfers; part of them is killed in the middle, all of them recover.
Run it again on the same folder, also after kill -9, and it continues where it stopped.

  --data DIR     the folder of journal and acknowledgements; default: a folder in the system's temp folder
  --accounts N   how many accounts, at least 2; default: 2000, or as many as the folder has
  --events N     how many commands clients send in this run; default: 300000
  --seed N       repeats the random choices of a run; default: another one each time
  --verify       sends no commands, only recovers and checks that nothing acknowledged is missing
  --json         the closing table as JSON on the standard output, all else on the standard error
  --help         this text
"
);

/// # Errors
/// What is wrong with the arguments.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Arguments>, lexopt::Error> {
    let mut parsed = Arguments {
        data: env::temp_dir().join("actor-journal-bank-account"),
        accounts: None,
        events: DEFAULT_EVENTS,
        seed: fastrand::u64(0..1 << 32),
        json: false,
        verify: false,
    };
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("data") => parsed.data = parser.value()?.into(),
            Arg::Long("accounts") => match number(&mut parser, "--accounts")? {
                accounts @ 2.. => parsed.accounts = Some(accounts),
                _ => return Err("--accounts must be at least 2: a transfer needs two".into()),
            },
            Arg::Long("events") => parsed.events = number(&mut parser, "--events")?,
            Arg::Long("seed") => parsed.seed = number(&mut parser, "--seed")?,
            Arg::Long("json") => parsed.json = true,
            Arg::Long("verify") => parsed.verify = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            unknown => return Err(unknown.unexpected()),
        }
    }
    Ok(Some(parsed))
}

fn number<T: FromStr>(parser: &mut Parser, option: &str) -> Result<T, lexopt::Error> {
    let value = parser.value()?.string()?;
    value
        .parse()
        .map_err(|_| format!("{option} needs a whole number, and {value:?} is none that fits").into())
}
