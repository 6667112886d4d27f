use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Account {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Self>,
}

struct NotAMessage;

#[derive(actix::Message)]
#[rtype(result = "Result<(), journal_core::PersistError>")]
struct NotACommand;

#[derive(actix::Message)]
#[rtype(result = "Result<(), journal_core::PersistError>")]
struct NotHandled;

impl journal_core::Command for NotHandled {
    type Reply = Result<(), journal_core::PersistError>;
}

fn send(account: actix::Addr<Account>) {
    account.do_send(NotAMessage);
    account.do_send(NotACommand);
    account.do_send(NotHandled);
}

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(manifest = "nothing", crate = journal_core)]
struct Nothing;

struct Handled;

impl journal_core::Command for Handled {
    type Reply = Result<(), journal_core::PersistError>;
}

impl journal_core::Handles<Handled> for Account {
    fn handle(
        &self,
        _: &(),
        _: Handled,
    ) -> journal_core::Effect<Self, Result<(), journal_core::PersistError>> {
        journal_core::Effects::none(self).then_reply(|()| Ok(()))
    }
}

impl EventSourced for Account {
    type Event = Nothing;
    type State = ();
    fn apply(_: &mut (), _: &Nothing) {}
}

fn main() {}
