//! The run, from opening to the closing table; the same for every framework.

#![allow(
    unreachable_pub,
    reason = "a program has no outside; `pub` is what a file offers to the others"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to whoever runs it"
)]

pub mod account;
mod acknowledgements;
mod arguments;
mod audit;
pub mod bank;
mod clients;
mod report;

use std::{env, path::Path, process::ExitCode, sync::Arc, time::Instant};

use actor_journal::Persistence;
use indicatif::HumanCount;

use self::{
    acknowledgements::{Acknowledged, Acknowledgements},
    arguments::Arguments,
    audit::{Books, Money},
    bank::{Framework, LiveBank},
    clients::Load,
    report::{Narrator, Recoveries, Report, Work, bytes_on_disk},
};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Every so-manieth account is killed in the middle.
const KILL_EVERY: usize = 4;

/// The whole program, with the accounts as actors of this framework.
pub async fn main<F: Framework + Clone>(framework: F) -> ExitCode {
    let result = match arguments::parse(env::args_os().skip(1)) {
        Ok(Some(arguments)) => run(framework, arguments).await,
        Ok(None) => {
            print!("{}", arguments::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}: {error}\n\n{}", arguments::NAME, arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}: {failure}", arguments::NAME);
            ExitCode::FAILURE
        }
    }
}

async fn run<F: Framework + Clone>(framework: F, arguments: Arguments) -> Result<(), Failure> {
    let out = Narrator { json: arguments.json };
    let journal = arguments.data.join("journal");
    let told = arguments.data.join("acknowledged.log");
    out.say(format!("data: {}", arguments.data.display()));
    if arguments.verify && !told.exists() {
        return Err("there is no bank in this folder; run without --verify first".into());
    }

    // The journal first: its lock keeps a second process away from both.
    let persistence = actor_journal::embedded(&journal).await?;
    let (log, earlier) = Acknowledgements::open(&told)?;
    let accounts = number_of_accounts(&arguments, &earlier)?;
    if accounts > earlier.accounts {
        log.log_accounts(accounts)?;
    }
    if earlier.accounts > 0 {
        let commands = HumanCount(earlier.commands);
        out.say(format!(
            "continuing where it stopped: {accounts} accounts, {commands} commands acknowledged"
        ));
    } else {
        out.say(format!("opening {accounts} new accounts"));
    }
    let mut bank = open(framework.clone(), persistence, accounts, out).await?;
    let mut checked = check(&bank, &told, out).await?;
    let mut recoveries = bank.recovered();

    let mut work = None;
    if !arguments.verify {
        work = Some(load(&bank, log, &arguments, accounts, &checked.books, out).await?);
        let before = check(&bank, &told, out).await?;
        recoveries = bank.recovered();

        out.say("closing the journal, opening it again, recovering all accounts");
        bank.close().await?;
        let persistence = actor_journal::embedded(&journal).await?;
        bank = open(framework, persistence, accounts, out).await?;
        checked = check(&bank, &told, out).await?;
        if checked.books != before.books {
            return Err("an account recovered to another state than it had".into());
        }
        recoveries.extend(bank.recovered());
    }
    bank.close().await?;

    out.table(&Report {
        data: arguments.data,
        accounts,
        money: checked.money,
        commands_acknowledged: checked.acknowledged.commands,
        work,
        recoveries: Recoveries::of(&recoveries),
        bytes_on_disk: bytes_on_disk(&journal)?,
    })
}

fn number_of_accounts(arguments: &Arguments, earlier: &Acknowledged) -> Result<u32, Failure> {
    match (arguments.accounts, earlier.accounts) {
        (Some(wanted), existing) if wanted < existing => Err(format!(
            "the bank in this folder has {existing} accounts; give --accounts {existing} or more, or another folder"
        )
        .into()),
        (Some(wanted), _) => Ok(wanted),
        (None, 0) => Ok(arguments::DEFAULT_ACCOUNTS),
        (None, existing) => Ok(existing),
    }
}

async fn open<F: Framework>(
    framework: F,
    persistence: Persistence,
    accounts: u32,
    out: Narrator,
) -> Result<Arc<LiveBank<F>>, Failure> {
    let progress = out.progress("recovering", accounts.into())?;
    let started = Instant::now();
    let bank = LiveBank::open(framework, persistence, accounts, || progress.inc(1)).await?;
    progress.finish_and_clear();
    let Recoveries {
        recovered,
        recovered_from_snapshot,
        transfers_resumed,
        ..
    } = Recoveries::of(&bank.recovered());
    if recovered > 0 {
        let time = started.elapsed().as_secs_f64();
        out.say(format!("  recovered {recovered} accounts in {time:.1} s, {recovered_from_snapshot} of them from a snapshot, and resumed {transfers_resumed} transfers"));
    }
    Ok(bank)
}

/// Clients send their commands; in the middle a part of the accounts is killed and recovers.
async fn load<F: Framework>(
    bank: &Arc<LiveBank<F>>,
    log: Acknowledgements,
    arguments: &Arguments,
    accounts: u32,
    before: &Books,
    out: Narrator,
) -> Result<Work, Failure> {
    let (commands, seed) = (arguments.events, arguments.seed);
    out.say(format!("sending {} commands, seed {seed}", HumanCount(commands)));
    let load = Load {
        bank: bank.clone(),
        log,
        accounts,
        commands,
        first_number: before.newest_command() + 1,
        seed,
        progress: out.progress("commands", commands)?,
    };
    let progress = load.progress.clone();
    let victims = bank.ids().step_by(KILL_EVERY);
    let kill = async {
        let killed = victims.size_hint().0;
        bank.kill(victims).await?;
        progress.suspend(|| out.say(format!("  killed {killed} accounts at work, and recovered them")));
        Ok(())
    };
    let started = Instant::now();
    let seen = load.run(kill).await?;
    progress.finish_and_clear();
    let after = bank.books().await?;
    let done = after.commands() - before.commands();
    if done != commands - seen.refused {
        return Err(format!("{commands} commands, {} refused, but {done} done", seen.refused).into());
    }
    Ok(Work::new(
        seed,
        &seen,
        after.events() - before.events(),
        started.elapsed(),
    ))
}

/// What was found right at a moment without work.
struct Checked {
    books: Books,
    money: Money,
    acknowledged: Acknowledged,
}

async fn check<F: Framework>(bank: &LiveBank<F>, told: &Path, out: Narrator) -> Result<Checked, Failure> {
    let books = bank.books().await?;
    let money = books.check_money()?;
    let acknowledged = Acknowledged::read(told)?;
    books.check_acknowledged(&acknowledged)?;
    let commands = HumanCount(acknowledged.commands);
    out.say(format!(
        "  checked: {money}; all {commands} acknowledged commands are there"
    ));
    Ok(Checked {
        books,
        money,
        acknowledged,
    })
}
