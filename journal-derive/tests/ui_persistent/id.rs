use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Missing {
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Two {
    #[persistent(id)]
    id: String,
    #[persistent(id)]
    other: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(id = "a", crate = journal_actix)]
struct FieldAndText {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(id = "a", id_with = Self::id, crate = journal_actix)]
struct TextAndFunction {
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(id = "", crate = journal_actix)]
struct Empty {
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(id = 7, crate = journal_actix)]
struct NoText {
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
