//! An honest plugin with the calls besides writes: plans, moves, imports, functions. Its misbehaviour shows what the
//! host must contain.
//!
//! - `Thing`: an empty text becomes `untitled`, the text `forbidden` is refused, `odd` is warned of. A controller
//!   `changes` writes `seen <text>` into the inner text, and keeps a count of its reconciles, decimal, in private
//!   bytes.
//! - The texts `block` and `free` protect a thing from deletion and end the protection, in `mutate`; a thing whose
//!   items are `block` or `free` has that done by its controller.
//! - A plan predicts the inner text, demands a replacement when `number` changes, and warns `kept <bytes>` of the
//!   private bytes that it received. The name `boom-plan` panics.
//! - An `OldThing` becomes a `Thing` with `moved` after its items; its private bytes are kept, and become `moved` if
//!   there were none. The text `stuck` is refused, `trap` panics.
//! - `thing:<name>` is imported as `<name>` with the text `imported`, and keeps `imported`; `file:<name>` has the text
//!   of that file in the directory `outside`; `keep:<name>` asks for private bytes, which an import does not have;
//!   `name:<anything>` has exactly that name; `odd:<name>` has the text `odd`; `boom` panics; anything else is refused.
//! - Functions: see the table.

use std::collections::BTreeMap;

use mortise_plugin::{
    Context, Controller, Diagnostics, Error, Function, FunctionFault, Import, Kind, Move, Outcome, Parameter, Plan,
    Plugin, Reconciler, Request, ResourceType, Scope, Typed, Value, ValueType, field, pb, prost::Message,
};
use mortise_test_guests::{DESCRIPTORS, Inner, Thing, boom};

const THING: Kind<Thing> = Kind::new("changes", "v1", "Thing");
const OLD_THING: Kind<Thing> = Kind::new("changes", "v1", "OldThing");

/// The type of the argument and of the result of `describe`.
const PERSON: ValueType = ValueType::Object(&[("age", ValueType::Number), ("name", ValueType::String)]);
const DESCRIPTION: ValueType = ValueType::Map(&ValueType::String);

static PLUGIN: Plugin = Plugin::new(
    "changes",
    "0.1.0",
    DESCRIPTORS,
    &[
        &ResourceType::of(THING, Scope::Namespace)
            .mutate(mutate)
            .validate(validate)
            .plan(plan)
            .moves_from(&[("changes", "v1", "OldThing")], move_to)
            .import(import),
        &ResourceType::of(OLD_THING, Scope::Namespace),
    ],
)
.controllers(&[&Controller::new("changes", THING, Changes)])
.functions(&[
    Function::new("concat", &[], ValueType::String, concat)
        .variadic(Parameter::new("texts", ValueType::String))
        .summary("Joins texts."),
    Function::new("sum", &[Parameter::new("numbers", ValueType::List(&ValueType::Number))], ValueType::Number, sum)
        .summary("Adds whole numbers.")
        .description("Null counts as nothing."),
    Function::new("describe", &[Parameter::new("person", PERSON).allow_null()], DESCRIPTION, describe),
    Function::new("refuses", &[Parameter::new("text", ValueType::String)], ValueType::String, |_| {
        Err(FunctionFault::at(0, "it is refused"))
    }),
    Function::new("settings", &[], ValueType::String, |_| Ok(mortise_plugin::settings().into())),
    Function::new("logs", &[], ValueType::Bool, |_| {
        mortise_plugin::log::info("a function was here");
        Ok(true.into())
    }),
    Function::new("spins", &[], ValueType::Bool, |_| {
        while std::hint::black_box(true) {}
        Ok(true.into())
    }),
    Function::new("traps", &[], ValueType::Bool, |_| traps()),
    Function::new("wrong", &[], ValueType::Number, |_| Ok("a text".into())).deprecated("use one that is right"),
]);
mortise_plugin::export!(PLUGIN: mutating, validating, controlling, planning, moving, importing, functions);

fn mutate(thing: &mut Typed<Thing>) -> Result<(), Diagnostics> {
    if thing.data.text.is_empty() {
        "untitled".clone_into(&mut thing.data.text);
    }
    if let Some(block) = block(&thing.data.text) {
        thing.block_deletion(block);
    }
    Ok(())
}

/// The protection from deletion that a word asks for.
fn block(word: &str) -> Option<bool> {
    match word {
        "block" => Some(true),
        "free" => Some(false),
        _ => None,
    }
}

fn validate(thing: &Typed<Thing>, _: Option<&Typed<Thing>>, diagnostics: &mut Diagnostics) {
    if thing.data.text == "forbidden" {
        diagnostics.error("it is forbidden").at(field("text"));
    }
    if thing.data.text == "odd" {
        diagnostics.warning("it is odd").at(field("text"));
    }
}

fn seen(thing: &Thing) -> Option<Inner> {
    Some(Inner { text: format!("seen {}", thing.text) })
}

fn plan(thing: &Typed<Thing>, prior: Option<&Typed<Thing>>, kept: Option<&[u8]>, plan: &mut Plan<Thing>) {
    assert!(!boom(thing.id(), "plan"), "a plan met a trap");
    if prior.is_some_and(|prior| prior.data.number != thing.data.number) {
        plan.replace(field("number"));
    }
    if let Some(kept) = kept {
        plan.diagnostics.warning(format!("kept {}", String::from_utf8_lossy(kept)));
    }
    let mut predicted = thing.clone();
    predicted.data.inner = seen(&thing.data);
    plan.predict(predicted);
}

fn move_to(old: &pb::Resource, _: u32, kept: Option<&[u8]>) -> Result<Move<Thing>, Diagnostics> {
    let data = old.data.as_ref().map_or(&[][..], |any| any.value.as_slice());
    let mut thing = Thing::decode(data).map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
    assert!(thing.text != "trap", "a move met a trap");
    if thing.text == "stuck" {
        return Err(Diagnostics::refusal("it is stuck"));
    }
    thing.items.push("moved".to_owned());
    Ok(Move::new(thing).private_bytes(kept.unwrap_or(b"moved")))
}

fn import(ctx: &Context<'_>, external_id: &str, within: &pb::Tenancy) -> Result<Import<Thing>, Diagnostics> {
    assert!(external_id != "boom", "an import met a trap");
    let named = |name: &str, text: &str| Import::new(name, Thing { text: text.to_owned(), ..Thing::default() });
    match external_id.split_once(':') {
        Some(("thing", name)) => Ok(named(name, "imported").private_bytes("imported")),
        Some(("name", name)) => Ok(named(name, "imported")),
        Some(("odd", name)) => Ok(named(name, "odd")),
        Some(("file", name)) => match ctx.files("outside").read(name)? {
            Some(content) => Ok(named(name, &String::from_utf8_lossy(&content))),
            None => Err(Diagnostics::refusal(format!("there is no file {name}"))),
        },
        Some(("keep", name)) => {
            let id = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(), ..THING.id(name, within) };
            ctx.private_bytes(&id).get()?;
            Ok(named(name, "it had private bytes"))
        }
        _ => Err(Diagnostics::refusal(format!("{external_id} is nothing that can be imported"))),
    }
}

struct Changes;

impl Reconciler for Changes {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(mut thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        let kept = ctx.private_bytes(thing.id());
        // A moved or imported resource counts from its private bytes.
        let count = kept.get()?.and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<u64>().ok()).unwrap_or(0);
        kept.set(count.saturating_add(1).to_string().as_bytes())?;
        if let [item] = thing.data.items.as_slice()
            && let Some(block) = block(item)
        {
            ctx.block_deletion(thing.id(), block)?;
        }
        let seen = seen(&thing.data);
        if thing.data.inner != seen {
            thing.data.inner = seen;
            ctx.write(&thing)?;
        }
        Ok(Outcome::Done)
    }
}

#[allow(clippy::panic, reason = "it is what the function is about")]
fn traps() -> Result<Value, FunctionFault> {
    panic!("a function met a trap")
}

fn concat(texts: &[Value]) -> Result<Value, FunctionFault> {
    Ok(texts.iter().filter_map(Value::as_text).collect::<String>().into())
}

fn sum(arguments: &[Value]) -> Result<Value, FunctionFault> {
    let numbers = arguments.first().and_then(Value::as_list).unwrap_or_default();
    let mut sum = 0_i64;
    for number in numbers.iter().filter(|number| !number.is_null()) {
        let number = number.as_i64().ok_or_else(|| FunctionFault::at(0, "only whole numbers are added"))?;
        sum = sum.checked_add(number).ok_or_else(|| FunctionFault::new("the sum is too large"))?;
    }
    Ok(sum.into())
}

fn describe(arguments: &[Value]) -> Result<Value, FunctionFault> {
    let entry = |(key, value): (&String, &Value)| match value {
        Value::Number(digits) => (key.clone(), digits.as_str().into()),
        Value::Text(text) => (key.clone(), text.as_str().into()),
        _ => (key.clone(), Value::Null),
    };
    let person = arguments.first().and_then(Value::as_map);
    Ok(person.map(|person| person.iter().map(entry).collect::<BTreeMap<_, _>>()).unwrap_or_default().into())
}
