use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(id = "a", crate = journal_actix)]
enum Enum {
    A,
}

#[derive(PersistentActor)]
#[persistent(id = "a", crate = journal_actix)]
union Union {
    a: u8,
}

fn main() {}
