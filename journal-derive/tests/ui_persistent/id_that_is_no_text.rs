use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

struct Opaque;

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct NoText {
    #[persistent(id)]
    id: Opaque,
    #[persistent(state)]
    state: Durable<Self>,
}

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(manifest = "nothing", crate = journal_core)]
struct Nothing;

impl EventSourced for NoText {
    type Event = Nothing;
    type State = ();
    fn apply(_: &mut (), _: &Nothing) {}
}

fn main() {}
