use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

struct Model;

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Other {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

fn new_is_for_an_actor_that_is_its_own_model(persistence: &journal_core::Persistence) -> Other {
    Other {
        id: String::new(),
        state: Durable::new(persistence),
    }
}

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(manifest = "nothing", crate = journal_core)]
struct Nothing;

impl EventSourced for Model {
    type Event = Nothing;
    type State = ();
    fn apply(_: &mut (), _: &Nothing) {}
}

fn main() {}
