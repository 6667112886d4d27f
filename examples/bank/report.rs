//! What a run tells: lines as it goes, a progress bar, the closing table.

use std::{
    fmt, fs, io,
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::{Failure, audit::Money, bank::Recovery, clients::Seen};

/// Where lines go: to the standard output, unless that is for JSON.
#[derive(Clone, Copy)]
pub struct Narrator {
    pub json: bool,
}

impl Narrator {
    pub fn say(self, line: impl fmt::Display) {
        if self.json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }

    /// A bar that is seen if the standard output is a terminal.
    pub fn progress(self, what: &'static str, steps: u64) -> Result<ProgressBar, Failure> {
        let target = if io::stdout().is_terminal() && !self.json {
            ProgressDrawTarget::stdout()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style =
            ProgressStyle::with_template("  {msg:12} {wide_bar} {human_pos}/{human_len}  {eta} left")?;
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        Ok(bar.with_style(style).with_message(what))
    }

    pub fn table(self, report: &Report) -> Result<(), Failure> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(report)?);
        } else {
            print!("\n{report}");
        }
        Ok(())
    }
}

/// The closing table.
#[derive(Serialize)]
pub struct Report {
    pub data: PathBuf,
    pub accounts: u32,
    pub money: Money,
    /// Acknowledged over all runs, and all found again.
    pub commands_acknowledged: u64,
    #[serde(flatten)]
    pub work: Option<Work>,
    #[serde(flatten)]
    pub recoveries: Recoveries,
    pub bytes_on_disk: u64,
}

/// What the clients of this run did.
#[derive(Serialize)]
pub struct Work {
    pub seed: u64,
    pub commands: u64,
    pub commands_refused: u64,
    pub events_persisted: u64,
    pub seconds: f64,
    pub events_per_second: f64,
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
}

impl Work {
    pub fn new(seed: u64, seen: &Seen, events_persisted: u64, time: Duration) -> Self {
        let milliseconds = |quantile| {
            let micros = seen.latencies.value_at_quantile(quantile);
            Duration::from_micros(micros).as_secs_f64() * 1e3
        };
        let seconds = time.as_secs_f64();
        Self {
            seed,
            commands: seen.latencies.len(),
            commands_refused: seen.refused,
            events_persisted,
            seconds,
            events_per_second: events_persisted as f64 / seconds,
            p50_milliseconds: milliseconds(0.5),
            p99_milliseconds: milliseconds(0.99),
        }
    }
}

/// All recoveries of accounts that had events.
#[derive(Serialize)]
pub struct Recoveries {
    pub recovered: usize,
    pub recovered_from_snapshot: usize,
    /// The shortest, the middle and the longest of the tails: events replayed by one recovery.
    pub tail_min: u64,
    pub tail_median: u64,
    pub tail_max: u64,
    /// Transfers that were under way at a recovery, and were taken up again.
    pub transfers_resumed: usize,
}

impl Recoveries {
    pub fn of(recoveries: &[Recovery]) -> Self {
        let mut tails: Vec<u64> = recoveries.iter().map(|recovery| recovery.tail).collect();
        tails.sort_unstable();
        let at = |index: usize| tails.get(index).copied().unwrap_or(0);
        Self {
            recovered: tails.len(),
            recovered_from_snapshot: recoveries.iter().filter(|recovery| recovery.snapshot > 0).count(),
            tail_min: at(0),
            tail_median: at(tails.len() / 2),
            tail_max: at(tails.len().saturating_sub(1)),
            transfers_resumed: recoveries.iter().map(|recovery| recovery.transfers_resumed).sum(),
        }
    }
}

impl fmt::Display for Recoveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: usize| HumanCount(number as u64);
        let (min, median, max) = (self.tail_min, self.tail_median, self.tail_max);
        row(f, "actors recovered", count(self.recovered))?;
        row(f, "  from a snapshot", count(self.recovered_from_snapshot))?;
        row(
            f,
            "  tail lengths",
            format_args!("{min} min, {median} median, {max} max"),
        )?;
        row(f, "  transfers resumed", count(self.transfers_resumed))
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (commands, refused) = (HumanCount(self.commands), HumanCount(self.commands_refused));
        row(f, "commands", format_args!("{commands}, {refused} refused"))?;
        row(f, "events persisted", HumanCount(self.events_persisted))?;
        row(
            f,
            "events/s",
            format_args!("{:.0}, over {:.1} s", self.events_per_second, self.seconds),
        )?;
        let (p50, p99) = (self.p50_milliseconds, self.p99_milliseconds);
        row(
            f,
            "durable reply",
            format_args!("{p50:.1} ms p50, {p99:.1} ms p99"),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(work) = &self.work {
            work.fmt(f)?;
        }
        self.recoveries.fmt(f)?;
        row(f, "acknowledged so far", HumanCount(self.commands_acknowledged))?;
        row(f, "bytes on disk", HumanBytes(self.bytes_on_disk))
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "  {name:<24}{value}")
}

/// The sizes of all files below a directory.
pub fn bytes_on_disk(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            bytes_on_disk(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}
