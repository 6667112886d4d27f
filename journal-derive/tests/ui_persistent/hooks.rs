use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(hooks, crate = journal_actix)]
struct NoHooks {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Self>,
}

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(manifest = "nothing", crate = journal_core)]
struct Nothing;

impl EventSourced for NoHooks {
    type Event = Nothing;
    type State = ();
    fn apply(_: &mut (), _: &Nothing) {}
}

fn main() {}
