use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Unknown {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
    #[persistent(strict)]
    other: u64,
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct WithValue {
    #[persistent(id = "a")]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

struct Model;

impl EventSourced for Model {
    type Event = Nothing;
    type State = ();
    fn apply(_: &mut (), _: &Nothing) {}
}

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(manifest = "nothing", crate = journal_core)]
struct Nothing;

fn main() {}
