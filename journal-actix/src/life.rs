//! The turns of an actor's life, and its engine's steps.

use std::{sync::Arc, time::Duration};

use actix::{ActorContext, ActorFutureExt, AsyncContext, Context, Running, WeakAddr, WrapFuture};
use futures_util::{FutureExt, future::BoxFuture};
use journal_core::{
    ErrorKind, JournalError, Operation, PersistError, RecoveryError,
    adapter::{BoxedCommand, Engine, Halt, Recovered, Restart, Step},
};
use tokio::{sync::oneshot, task::JoinError};

use crate::{
    PersistentActor,
    durable::{Phase, prepare},
    message::{Inbox, Internal},
    off_thread::OffThread,
    told::Ears,
};

/// `Actor::started`: recovers, unless it rests or has ended.
pub fn started<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) {
    prepare(actor);
    // Before the wait for recovery: of waits that are there, actix takes the newest first.
    actor.on_starting(context);
    actor.durable_mut().is_starting = true;
    if let Phase::Unrecovered = actor.durable().phase {
        recover(actor, context);
    }
}

/// `Actor::stopping`: not before all that was handled is durable or has failed, and the model knows.
pub fn stopping<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) -> Running {
    // A panic of the actor is why: to go on polling its waits would be a second one, which aborts the process.
    if std::thread::panicking() {
        return Running::Stop;
    }
    let durable = actor.durable_mut();
    let concluded = match &durable.phase {
        Phase::Live(engine) => Some(engine.concluded().boxed()),
        _ => durable.last_words.take(),
    };
    let Some(concluded) = concluded else {
        return Running::Stop;
    };
    context.wait(concluded.into_actor(actor).map(|(), actor, context| {
        let durable = actor.durable_mut();
        durable.phase = match std::mem::replace(&mut durable.phase, Phase::Unrecovered) {
            Phase::Live(engine) => Phase::Settled(engine),
            other => other,
        };
        context.stop();
    }));
    // Where all addresses are gone, actix does not look at the new wait by itself.
    context.address().do_send(Internal(Inbox::Wake));
    Running::Continue
}

/// `Actor::stopped`.
pub fn stopped<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) {
    hear(actor);
    // While it can still see the newest state.
    actor.on_stopped(context);
    let durable = actor.durable_mut();
    if durable.is_recovered() {
        durable.leave(if durable.is_ending {
            Phase::Ended
        } else {
            Phase::Unrecovered
        });
    }
    if let Phase::Ended = durable.phase {
        durable.shared.ended();
    }
}

/// `Supervised::restarting`: actix keeps the actor, so what was recovered goes here; a recovery on top of it would apply
/// events twice.
pub fn restarting<A: PersistentActor>(actor: &mut A, _: &mut Context<A>) {
    let durable = actor.durable_mut();
    durable.stop_refusing();
    if !matches!(durable.phase, Phase::Resting | Phase::Ended) {
        durable.leave(Phase::Unrecovered);
    }
}

/// Takes a command in.
pub(crate) fn take<A: PersistentActor>(
    actor: &mut A,
    context: &mut Context<A>,
    command: BoxedCommand<A::Model>,
) {
    let durable = actor.durable_mut();
    match &mut durable.phase {
        Phase::Live(engine) => {
            engine.push(command);
            pump(actor, context);
        }
        // Its caller sees a closed mailbox.
        Phase::Ended => drop(command),
        Phase::Refusing(refusal, _) => {
            let refusal = refusal.clone();
            refuse(actor, command, refusal);
        }
        Phase::Resting => {
            durable.waiting.push_back(command);
            recover(actor, context);
        }
        Phase::Unrecovered | Phase::Recovering | Phase::Settled(_) => durable.waiting.push_back(command),
    }
}

/// Takes all steps that the engine has.
pub(crate) fn pump<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) {
    hear(actor);
    if actor.durable().shared.stop_is_wanted() {
        return end(actor, context);
    }
    if actor.durable().is_paused {
        return;
    }
    while let Phase::Live(engine) = &mut actor.durable_mut().phase {
        match engine.step() {
            Ok(Step::Command(command)) => {
                let Phase::Live(engine) = &actor.durable().phase else {
                    return;
                };
                let decision = engine.decide(actor.model(), command);
                let Phase::Live(engine) = &mut actor.durable_mut().phase else {
                    return;
                };
                engine.enact(decision);
                if !engine.must_step() {
                    break;
                }
            }
            Ok(Step::Settle(settled)) => return settle(actor, context, settled),
            Ok(Step::Recover(recovered)) => return recover_in_place(actor, context, recovered),
            Ok(Step::Idle) => break,
            Err(halt) => return fail(actor, context, &halt),
        }
    }
    let durable = actor.durable_mut();
    if let Phase::Live(engine) = &durable.phase {
        if !std::mem::replace(&mut durable.is_announced, true) {
            durable.shared.lives();
        }
        if engine.stop_is_due() {
            end(actor, context);
        }
    }
}

fn settle<A: PersistentActor>(actor: &mut A, context: &mut Context<A>, settled: BoxFuture<'static, ()>) {
    actor.durable_mut().is_paused = true;
    context.wait(settled.into_actor(actor).map(|(), actor, context| {
        actor.durable_mut().is_paused = false;
        pump(actor, context);
    }));
}

/// One wait: for the backoff, then for the recovery, which runs elsewhere.
fn recover<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) {
    let id = actor.persistence_id();
    let address = context.address().downgrade();
    let wake = move || {
        if let Some(address) = address.upgrade() {
            address.do_send(Internal(Inbox::Wake));
        }
    };
    let durable = actor.durable_mut();
    let hears = durable.hears.clone();
    durable.phase = Phase::Recovering;
    durable.is_announced = false;
    durable.shared.recovers();
    let shared = durable.shared.clone();
    let persistence = durable.persistence().cloned();
    let prepared = prepare(actor);
    let wait = std::mem::take(&mut prepared.wait);
    let options = prepared.options.clone();
    let admission = prepared.admission.clone();
    let turn = shared.clone();
    let recovery = async move {
        let Some(persistence) = persistence else {
            let missing = "the actor has no persistence; make its `Durable` with one, or call `Persistence::install` before the actor starts";
            return Some(Err(RecoveryError::Config(missing.to_owned())));
        };
        let recovery = OffThread::spawn(&persistence.runtime().clone(), async move {
            let turn = turn.turn().await;
            // Not where there is nothing to wait for: the timer costs.
            if wait > Duration::ZERO {
                tokio::time::sleep(wait).await;
            }
            let recovered =
                Engine::recover(&id, options, &persistence, admission, Ears { hears, wake }).await;
            recovered.map(|engine| (engine, turn))
        });
        let recovered = shared.unless_stopped(recovery).await;
        recovered.map(|recovered| recovered.unwrap_or_else(|error| Err(cut_off(error))))
    };
    context.wait(recovery.into_actor(actor).map(|recovered, actor, context| {
        hear(actor);
        match recovered {
            Some(Ok((engine, _turn))) => begin(actor, context, engine),
            Some(Err(error)) => fail(actor, context, &Halt::RecoveryFailed(Arc::new(error))),
            None => end(actor, context),
        }
    }));
}

fn begin<A: PersistentActor>(actor: &mut A, context: &mut Context<A>, mut engine: Engine<A::Model>) {
    let prepared = prepare(actor);
    prepared.restarts.healthy();
    let idle = prepared.options.idle_limit();
    let address = context.address().downgrade();
    let durable = actor.durable_mut();
    for command in durable.waiting.drain(..) {
        engine.push(command);
    }
    durable.phase = Phase::Live(Box::new(engine));
    durable.looks = idle
        .zip(durable.persistence())
        .map(|(idle, persistence)| OffThread::spawn(persistence.runtime(), looks(address, idle)));
    if std::mem::take(&mut durable.is_starting) {
        actor.on_recovered(context);
    }
    pump(actor, context);
}

/// Asks whether it is idle, not again before the answer. It does not keep the actor alive, as a timer of actix would.
async fn looks<A: PersistentActor>(actor: WeakAddr<A>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let (look, looked) = oneshot::channel();
        let Some(address) = actor.upgrade() else { return };
        address.do_send(Internal(Inbox::Look(look)));
        drop(address);
        // Dropped is the answer.
        drop(looked.await);
    }
}

/// Makes room if it was idle; the next command recovers it.
pub(crate) fn look<A: PersistentActor>(actor: &mut A) {
    let durable = actor.durable_mut();
    if let Phase::Live(engine) = &mut durable.phase
        && engine.was_idle()
    {
        durable.leave(Phase::Resting);
    }
}

fn recover_in_place<A: PersistentActor>(
    actor: &mut A,
    context: &mut Context<A>,
    recovered: BoxFuture<'static, Recovered<A::Model>>,
) {
    let durable = actor.durable_mut();
    let Some(persistence) = durable.persistence() else {
        return;
    };
    let recovery = OffThread::spawn(persistence.runtime(), recovered);
    durable.is_paused = true;
    let shared = durable.shared.clone();
    let recovery = async move { shared.unless_stopped(recovery).await };
    context.wait(recovery.into_actor(actor).map(|recovered, actor, context| {
        let durable = actor.durable_mut();
        durable.is_paused = false;
        let Phase::Live(engine) = &mut durable.phase else {
            return;
        };
        let resumed = match recovered {
            Some(Ok(recovered)) => engine.resume(recovered),
            Some(Err(error)) => Err(Halt::RecoveryFailed(Arc::new(cut_off(error)))),
            None => return end(actor, context),
        };
        match resumed {
            Ok(()) => pump(actor, context),
            Err(halt) => fail(actor, context, &halt),
        }
    }));
}

/// A life failed: stops, to be restarted or not.
fn fail<A: PersistentActor>(actor: &mut A, context: &mut Context<A>, halt: &Halt) {
    hear(actor);
    let id = actor.persistence_id();
    let prepared = prepare(actor);
    let restart = prepared.restarts.after(Some(halt));
    prepared.wait = Duration::ZERO;
    let next = match restart {
        Restart::After(wait) => {
            tracing::warn!(persistence_id = %id, failure = %halt, ?wait, "a persistent actor failed; it recovers again if it is supervised");
            prepared.wait = wait;
            Phase::Unrecovered
        }
        Restart::Rest => {
            tracing::warn!(persistence_id = %id, failure = %halt, "a persistent actor stopped; if it is supervised, the next command starts it again");
            Phase::Resting
        }
        Restart::End => {
            tracing::error!(persistence_id = %id, failure = %halt, "a persistent actor ended");
            Phase::Ended
        }
    };
    let durable = actor.durable_mut();
    let refused = std::mem::take(&mut durable.waiting);
    if let Phase::Live(engine) = &durable.phase {
        durable.last_words = Some(engine.concluded().boxed());
    }
    durable.leave(Phase::Refusing(halt.refusal(), Box::new(next)));
    let error = match halt {
        Halt::RecoveryFailed(error) => error.clone(),
        Halt::Fenced(error) => Arc::new(RecoveryError::Journal(error.clone())),
        // There is no other.
        _ => return context.stop(),
    };
    if durable.shared.fail(error.clone()) {
        // Whoever waits for the recovery knows, and may try again.
        durable.leave(Phase::Ended);
    }
    for command in refused {
        refuse(actor, command, halt.refusal());
    }
    if let Halt::RecoveryFailed(_) = halt {
        actor.on_recovery_failed(&error, context);
    }
    if let Phase::Refusing(..) = actor.durable().phase {
        // Behind all that waits.
        context.address().do_send(Internal(Inbox::Refused));
    } else {
        context.stop();
    }
}

/// What waited when it failed is answered.
pub(crate) fn refused<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) {
    if actor.durable_mut().stop_refusing() {
        context.stop();
    }
}

fn refuse<A: PersistentActor>(actor: &A, command: BoxedCommand<A::Model>, refusal: PersistError) {
    if let Some(told) = command.refuse(refusal) {
        told.to(actor.model());
    }
}

/// The end for good, once all that was handled is durable or has failed.
pub(crate) fn end<A: PersistentActor>(actor: &mut A, context: &mut Context<A>) {
    let durable = actor.durable_mut();
    durable.is_ending = true;
    if !durable.is_recovered() {
        durable.leave(Phase::Ended);
    }
    context.stop();
}

/// Gives the model what it was told meanwhile.
fn hear<A: PersistentActor>(actor: &A) {
    for told in actor.durable().hears.take() {
        told.to(actor.model());
    }
}

/// Why work on the other runtime has no result.
fn cut_off(error: JoinError) -> RecoveryError {
    if error.is_panic() {
        // Of the journal or the store, which the next attempt may find in order; actix restarts nothing that panicked.
        let message =
            format!("the journal or the snapshot store panicked ({error}); report this to its authors");
        return JournalError::unknown(ErrorKind::Unavailable, Operation::Replay, message).into();
    }
    // Another attempt would end here at once.
    let message = "the runtime of the persistence was shut down; give it one that outlives the actors";
    RecoveryError::Config(message.to_owned())
}
