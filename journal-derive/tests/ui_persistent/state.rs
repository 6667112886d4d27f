use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Missing {
    #[persistent(id)]
    id: String,
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Two {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
    #[persistent(state)]
    other: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct NotDurable {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: u64,
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct WithoutArgument {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable,
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
