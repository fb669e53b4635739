//! What holds for every type and every value.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::cmp::Ordering;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use mgmt_value::{Str, Type, Value, from_json, to_json_as};
use proptest::collection::vec;
use proptest::prelude::*;

fn key_type() -> impl Strategy<Value = Type> {
    let scalar = prop_oneof![Just(Type::Bool), Just(Type::Str), Just(Type::Int), Just(Type::Float)];
    scalar.prop_recursive(2, 6, 3, |inner| vec(inner, 0..3).prop_map(structure))
}

fn any_type() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![4 => key_type(), 1 => Just(Type::Variant)];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(Type::list),
            (key_type(), inner.clone()).prop_map(|(key, value)| Type::map(key, value)),
            vec(inner, 0..4).prop_map(structure),
        ]
    })
}

fn structure(types: Vec<Type>) -> Type {
    Type::structure(types.into_iter().enumerate().map(|(i, ty)| (format!("f{i}"), ty)))
}

fn text() -> impl Strategy<Value = Str> {
    prop_oneof![
        3 => any::<String>().prop_map(Str::from),
        1 => vec(any::<u8>(), 0..6).prop_map(Str::from),
        2 => "[ab]{0,2}".prop_map(Str::from),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::ANY,
        prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::INFINITY), Just(1.0)],
    ]
}

fn value_of(ty: &Type) -> BoxedStrategy<Value> {
    match ty {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Str => text().prop_map(Value::Str).boxed(),
        Type::Int => prop_oneof![any::<i64>(), -2_i64..3].prop_map(Value::Int).boxed(),
        Type::Float => number().prop_map(Value::Float).boxed(),
        Type::List(element) => {
            let element = element.clone();
            vec(value_of(&element), 0..4)
                .prop_map(move |items| Value::list((*element).clone(), items))
                .boxed()
        }
        Type::Map(types) => {
            let types = types.clone();
            vec((value_of(&types.0), value_of(&types.1)), 0..4)
                .prop_map(move |entries| Value::map(types.0.clone(), types.1.clone(), entries))
                .boxed()
        }
        Type::Struct(fields) => fields
            .iter()
            .map(|(name, ty)| (Just(name.clone()), value_of(ty)))
            .collect::<Vec<_>>()
            .prop_map(Value::structure)
            .boxed(),
        _ => key_type().prop_flat_map(|ty| value_of(&ty)).boxed(),
    }
}

/// Values of one type, of which some are alike.
fn values(count: usize) -> impl Strategy<Value = (Type, Vec<Value>)> {
    any_type().prop_flat_map(move |ty| (Just(ty.clone()), vec(value_of(&ty), count)))
}

fn hash(value: &Value) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

proptest! {
    #[test]
    fn the_text_of_a_type_reads_back_as_the_type(ty in any_type()) {
        let text = ty.to_string();
        let back = Type::parse(&text);
        prop_assert_eq!(back.as_ref(), Some(&ty));
    }

    #[test]
    fn no_text_makes_the_type_parser_fail_otherwise_than_by_none(text in "[a-z\\[\\]{}(): ;,?0-9é]{0,40}") {
        if let Some(ty) = Type::parse(&text) {
            prop_assert_eq!(Type::parse(&ty.to_string()), Some(ty));
        }
    }

    #[test]
    fn json_gives_the_value_back((ty, values) in values(1)) {
        let json = to_json_as(&values[0], &ty).to_string();
        let back = from_json(&serde_json::from_str(&json).unwrap(), &ty).unwrap();
        prop_assert_eq!(back.total_order(&values[0]), Ordering::Equal, "{}", json);
        prop_assert_eq!(back.to_string(), values[0].to_string());
    }

    #[test]
    fn order_and_hash_agree_with_equality((_, values) in values(2)) {
        let (a, b) = (&values[0], &values[1]);
        prop_assert_eq!(a.total_order(b), b.total_order(a).reverse());
        prop_assert_eq!(a.total_order(a), Ordering::Equal);
        if a == b {
            prop_assert_eq!(a.total_order(b), Ordering::Equal);
            prop_assert_eq!(hash(a), hash(b));
        } else if a == a && b == b {
            prop_assert_ne!(a.total_order(b), Ordering::Equal);
        }
    }

    #[test]
    fn order_is_transitive((_, mut values) in values(3)) {
        values.sort_by(Value::total_order);
        prop_assert_ne!(values[0].total_order(&values[2]), Ordering::Greater);
    }

    #[test]
    fn sharing_does_not_change_equality((ty, values) in values(1)) {
        let json = to_json_as(&values[0], &ty);
        let copy = from_json(&json, &ty).unwrap();
        prop_assert_eq!(values[0] == values[0].clone(), values[0] == copy);
    }

    #[test]
    fn a_value_knows_its_type((ty, values) in values(1)) {
        if !ty.to_string().contains("variant") {
            prop_assert_eq!(values[0].ty(), ty);
        }
    }

    #[test]
    fn quoted_text_is_printable_and_reads_back(text in text()) {
        let quoted = Value::Str(text.clone()).to_string();
        prop_assert!(!quoted.chars().any(char::is_control));
        prop_assert_eq!(unquote(&quoted), text.to_vec());
    }

    #[test]
    fn a_map_keeps_the_last_of_equal_keys(keys in vec(0_i64..4, 0..12)) {
        let entries = keys.iter().enumerate().map(|(i, key)| (Value::Int(*key), Value::Int(i as i64)));
        let map = mgmt_value::Map::new(Type::Int, Type::Int, entries);
        for key in 0..4 {
            let last = keys.iter().rposition(|other| *other == key).map(|i| Value::Int(i as i64));
            prop_assert_eq!(map.get(&Value::Int(key)), last.as_ref());
        }
    }
}

fn unquote(quoted: &str) -> Vec<u8> {
    let mut characters = quoted[1..quoted.len() - 1].chars();
    let mut bytes = Vec::new();
    while let Some(character) = characters.next() {
        let mut push = |character: char| bytes.extend(character.to_string().bytes());
        if character != '\\' {
            push(character);
            continue;
        }
        let escape = characters.next().unwrap();
        let mut hex = |digits| {
            let text: String = characters.by_ref().take(digits).collect();
            u32::from_str_radix(&text, 16).unwrap()
        };
        match escape {
            'a' => push('\x07'),
            'b' => push('\x08'),
            'f' => push('\x0c'),
            'n' => push('\n'),
            'r' => push('\r'),
            't' => push('\t'),
            'v' => push('\x0b'),
            '\\' | '"' => push(escape),
            'x' => bytes.push(u8::try_from(hex(2)).unwrap()),
            'u' => push(char::from_u32(hex(4)).unwrap()),
            'U' => push(char::from_u32(hex(8)).unwrap()),
            other => panic!("unknown escape {other}"),
        }
    }
    bytes
}
