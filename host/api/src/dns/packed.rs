//! Records of an answer in their wire form, from which each answer copies as many as fit.
//!
//! The name of an answer is a pointer to the name of the question, so the bytes are the same for each client and each
//! spelling of its question. Targets of SRV records are not compressed (RFC 2782).

use std::net::IpAddr;

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{DNSClass, Name, RecordType},
    serialize::binary::BinEncodable as _,
};

/// Bytes of a message's header. The name of the question is behind it.
pub(super) const HEADER_BYTES: u16 = 12;

/// The two upper bits of a pointer to a name.
const POINTER: u16 = 0xc000;

/// Flag of a truncated message, in the third byte.
const TRUNCATED: u8 = 0x02;

/// Longest name on the wire, bytes.
const MAX_NAME_BYTES: usize = 255;

/// The place of a record's name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner<'n> {
    /// The name of the question.
    Question,
    /// A label below a name in the question, which begins at this byte of the message.
    Below(&'n str, u16),
    /// A name of its own, on the wire.
    Name(&'n [u8]),
}

/// Records in their wire form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Packed {
    /// The record that precedes all others; empty without one.
    first: Vec<u8>,
    /// The answers, near ones first, otherwise in any order.
    answers: Vec<u8>,
    /// End of each answer in `answers`.
    ends: Vec<u32>,
    /// Number of answers that come before the others, and are the first ones in `answers`.
    near: usize,
    /// Addresses of targets, which an answer has all or not at all.
    additionals: Vec<u8>,
    additional_count: u16,
    /// Host name that the first record, a CNAME, leads to.
    host: Option<Name>,
}

impl Packed {
    /// Makes the CNAME of a host name.
    pub(super) fn alias(host: Name, ttl: u32) -> Self {
        let mut packed = Self::default();
        let Some(wire) = wire(&host) else { return packed };
        packed.first = record(Owner::Question, RecordType::CNAME, ttl, &wire);
        packed.host = Some(host);
        packed
    }

    /// Adds the addresses of the host name that a CNAME leads to.
    pub(super) fn with_addresses(mut self, record_type: RecordType, ttl: u32, addresses: &[IpAddr]) -> Self {
        let Some(host) = self.host.as_ref().and_then(wire) else { return self };
        for ip in addresses.iter().filter(|ip| type_of(**ip) == record_type) {
            self.push_of(Owner::Name(&host), record_type, ttl, &address(*ip));
        }
        self
    }

    /// Makes one record.
    pub(super) fn single(record_type: RecordType, ttl: u32, data: &[u8]) -> Self {
        let mut packed = Self::default();
        packed.push(record_type, ttl, data);
        packed
    }

    /// Adds an answer with the name of the question.
    pub(super) fn push(&mut self, record_type: RecordType, ttl: u32, data: &[u8]) {
        self.push_of(Owner::Question, record_type, ttl, data);
    }

    /// Adds an answer.
    pub(super) fn push_of(&mut self, owner: Owner<'_>, record_type: RecordType, ttl: u32, data: &[u8]) {
        write_record(&mut self.answers, owner, record_type, ttl, data);
        self.ends.push(u32::try_from(self.answers.len()).unwrap_or(u32::MAX));
    }

    /// Makes all answers so far come before the following ones.
    pub(super) fn end_near(&mut self) {
        self.near = self.ends.len();
    }

    /// Whether some answers come before others.
    pub(super) fn has_near(&self) -> bool {
        self.near > 0
    }

    /// Adds an address of a target. The addresses beyond those that a message can hold are left out.
    pub(super) fn push_additional(&mut self, owner: Owner<'_>, ttl: u32, ip: IpAddr) {
        if self.additionals.len() < usize::from(u16::MAX) {
            write_record(&mut self.additionals, owner, type_of(ip), ttl, &address(ip));
            self.additional_count = self.additional_count.saturating_add(1);
        }
    }

    /// Whether the answer is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.ends.is_empty()
    }

    /// The host name that the answer leads to.
    pub(super) fn host(&self) -> Option<&Name> {
        self.host.as_ref()
    }

    /// Number of answers.
    fn count(&self) -> usize {
        usize::from(!self.first.is_empty()) + self.ends.len()
    }

    /// Memory of the records, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.first.len() + self.answers.len() + 4 * self.ends.len() + self.additionals.len() + size_of::<Self>()
    }

    /// Encodes an answer with as many of the records as fit into `room` bytes, in another order each time, since
    /// clients take the first one: near ones, then the others. `reply` has everything but the records. An answer
    /// without some of its records is marked as truncated if `marks` is true.
    pub(super) fn encode(&self, mut reply: Message, room: usize, marks: bool) -> Option<Vec<u8>> {
        let whole = reply.to_vec().ok()?;
        let options = match reply.edns.take() {
            Some(_) => {
                let plain = reply.to_vec().ok()?;
                whole.get(plain.len()..)?.to_vec()
            }
            None => Vec::new(),
        };
        let mut message = whole;
        message.truncate(message.len() - options.len());
        let room = room.saturating_sub(options.len());
        let least = message.len() + self.first.len() + self.answers.len();
        message.reserve(room.min(least + self.additionals.len()) + options.len());
        let mut answers = 0_u16;
        let has_first = !self.first.is_empty() && message.len() + self.first.len() <= room;
        if has_first {
            message.extend_from_slice(&self.first);
            answers += 1;
        }
        // Records behind the first one belong to it.
        if has_first || self.first.is_empty() {
            let mut order: Vec<usize> = (0..self.ends.len()).collect();
            let count = order.len();
            for place in 0..count {
                let end = if place < self.near { self.near } else { count };
                order.swap(place, fastrand::usize(place..end));
                let Some(record) = order.get(place).and_then(|number| self.answer(*number)) else { continue };
                if message.len() + record.len() > room || answers == u16::MAX {
                    break;
                }
                message.extend_from_slice(record);
                answers += 1;
            }
        }
        let is_whole = usize::from(answers) == self.count();
        // Addresses of targets are optional: clients ask for missing ones.
        let with_additionals = is_whole && message.len() + self.additionals.len() <= room;
        let mut additionals = if options.is_empty() { 0 } else { 1_u16 };
        if with_additionals {
            message.extend_from_slice(&self.additionals);
            additionals = additionals.saturating_add(self.additional_count);
        }
        message.extend_from_slice(&options);
        message.get_mut(6..8)?.copy_from_slice(&answers.to_be_bytes());
        message.get_mut(10..12)?.copy_from_slice(&additionals.to_be_bytes());
        if marks && !is_whole {
            *message.get_mut(2)? |= TRUNCATED;
        }
        Some(message)
    }

    fn answer(&self, number: usize) -> Option<&[u8]> {
        let start = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.answers.get(start as usize..*self.ends.get(number)? as usize)
    }
}

/// Encodes a reply without records, or with few; an answer that does not fit into `room` bytes is empty and truncated.
pub(super) fn encode_few(reply: &Message, room: usize) -> Option<Vec<u8>> {
    let bytes = reply.to_vec().ok()?;
    if bytes.len() <= room { Some(bytes) } else { reply.truncate().to_vec().ok() }
}

/// Encodes the answer to a message that cannot be decoded.
pub(super) fn malformed(id: u16) -> Option<Vec<u8>> {
    let reply = Message::error_msg(id, hickory_proto::op::OpCode::Query, ResponseCode::FormErr);
    reply.to_vec().ok()
}

/// The name on the wire, without compression.
pub(super) fn wire(name: &Name) -> Option<Vec<u8>> {
    name.to_bytes().ok()
}

/// A label below a name on the wire; `None` if the name would be too long.
pub(super) fn wire_below(label: &str, name: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
    let whole = [&[length], label.as_bytes(), name].concat();
    (whole.len() <= MAX_NAME_BYTES).then_some(whole)
}

/// The type of an address's record.
pub(super) fn type_of(ip: IpAddr) -> RecordType {
    if ip.is_ipv4() { RecordType::A } else { RecordType::AAAA }
}

/// The data of an address's record.
pub(super) fn address(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn record(owner: Owner<'_>, record_type: RecordType, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_record(&mut bytes, owner, record_type, ttl, data);
    bytes
}

fn write_record(bytes: &mut Vec<u8>, owner: Owner<'_>, record_type: RecordType, ttl: u32, data: &[u8]) {
    let pointer = |place: u16| (POINTER | place).to_be_bytes();
    match owner {
        Owner::Question => bytes.extend(pointer(HEADER_BYTES)),
        Owner::Below(label, place) => {
            bytes.push(u8::try_from(label.len()).unwrap_or_default());
            bytes.extend(label.bytes().take(usize::from(u8::MAX)));
            bytes.extend(pointer(place));
        }
        Owner::Name(name) => bytes.extend_from_slice(name),
    }
    bytes.extend(u16::from(record_type).to_be_bytes());
    bytes.extend(u16::from(DNSClass::IN).to_be_bytes());
    bytes.extend(ttl.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
    bytes.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hickory_proto::{
        op::{Edns, MessageType, OpCode, Query},
        rr::RData,
    };
    use mortise_resource::grpc::catalog::{Endpoint, EndpointPort, Health, ServiceEndpoints};

    use super::*;
    use crate::dns::{
        answer::Question,
        name::Part,
        narrow::{Narrowing, ZonePreference},
    };

    const SERVICE: &str = "web.default.svc.cluster.local.";

    fn reply(name: &str, record_type: RecordType, with_edns: bool) -> Message {
        let mut reply = Message::new(7, MessageType::Response, OpCode::Query);
        reply.add_query(Query::query(Name::from_ascii(name).unwrap(), record_type));
        if with_edns {
            reply.set_edns(Edns::new());
        }
        reply
    }

    fn pack(name: &str, record_type: RecordType, part: Part, count: u32) -> Packed {
        let endpoint = |number: u32| Endpoint {
            workload: format!("web-{number}"),
            address: std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string(),
            health: Health::Passing.into(),
            weight: 3,
            ports: vec![EndpointPort { name: "http".into(), port: 8080, protocol: 1, opaque: false }],
            ..Endpoint::default()
        };
        let endpoints = ServiceEndpoints { endpoints: (0..count).map(endpoint).collect(), ..Default::default() };
        let (name, service) = (Name::from_ascii(name).unwrap(), Name::from_ascii(SERVICE).unwrap());
        let question = Question { name, record_type, part, narrowing: Narrowing::All, service };
        question.pack(&endpoints, 5, &ZonePreference::default()).unwrap()
    }

    fn encoded(packed: &Packed, reply: Message, room: usize) -> (Message, usize) {
        let bytes = packed.encode(reply, room, true).unwrap();
        (Message::from_vec(&bytes).unwrap(), bytes.len())
    }

    #[test]
    fn an_answer_has_as_many_records_as_fit() {
        let packed = pack(SERVICE, RecordType::A, Part::Whole, 8_000);
        for (room, with_edns, fits) in [(512, false, 29), (1_232, true, 73), (65_535, true, 4_092)] {
            let mut seen = BTreeSet::new();
            for _ in 0..2 {
                let (message, length) = encoded(&packed, reply(SERVICE, RecordType::A, with_edns), room);
                assert_eq!((message.answers.len(), message.edns.is_some()), (fits, with_edns));
                assert!(message.metadata.truncation && length <= room && length > room - 16, "{length}");
                seen.extend(message.answers.iter().map(|record| record.data.to_string()));
            }
            assert!(seen.len() > fits, "other ones each time");
        }
        let unmarked = packed.encode(reply(SERVICE, RecordType::A, false), 512, false).unwrap();
        assert!(!Message::from_vec(&unmarked).unwrap().metadata.truncation);
    }

    #[test]
    fn whole_answers_of_thousands_of_records_fit_into_a_message_over_tcp() {
        let all = pack(SERVICE, RecordType::A, Part::Whole, 4_000);
        let (message, _) = encoded(&all, reply(SERVICE, RecordType::A, true), 65_535);
        let addresses: BTreeSet<_> = message.answers.iter().map(|record| record.data.to_string()).collect();
        assert_eq!((addresses.len(), message.metadata.truncation), (4_000, false));
        let all = pack(SERVICE, RecordType::SRV, Part::Whole, 1_000);
        let (message, length) = encoded(&all, reply(SERVICE, RecordType::SRV, true), 65_535);
        assert_eq!((message.answers.len(), message.metadata.truncation), (1_000, false), "{length}");
        assert_eq!(message.additionals.len(), 0, "they do not fit, and are optional");
    }

    /// Near answers come first, in another order each time, and are the ones that a small answer has.
    #[test]
    fn near_answers_come_before_the_others() {
        let mut packed = Packed::default();
        for number in 0..100_u8 {
            packed.push(RecordType::A, 1, &[10, 0, 0, number]);
            if number == 19 {
                packed.end_near();
            }
        }
        let last = |record: &hickory_proto::rr::Record| match &record.data {
            RData::A(ip) => ip.octets()[3],
            other => panic!("{other}"),
        };
        let mut orders = BTreeSet::new();
        for _ in 0..4 {
            let (message, _) = encoded(&packed, reply(SERVICE, RecordType::A, false), 512);
            let numbers: Vec<_> = message.answers.iter().map(last).collect();
            assert_eq!(numbers.len(), 29);
            let near: BTreeSet<_> = numbers[..20].iter().copied().collect();
            assert!(near == (0..20).collect() && numbers[20..].iter().all(|number| *number >= 20), "{numbers:?}");
            orders.insert(numbers);
        }
        assert!(orders.len() > 1, "another order each time");
        let (message, _) = encoded(&packed, reply(SERVICE, RecordType::A, false), 200);
        assert!(message.answers.iter().all(|record| last(record) < 20), "{message}");
    }

    #[test]
    fn additionals_are_there_whole_or_not_at_all() {
        let packed = pack(SERVICE, RecordType::SRV, Part::Whole, 10);
        let (whole, length) = encoded(&packed, reply(SERVICE, RecordType::SRV, true), 65_535);
        assert_eq!((whole.answers.len(), whole.additionals.len()), (10, 10));
        let (without, _) = encoded(&packed, reply(SERVICE, RecordType::SRV, true), length - 1);
        assert_eq!((without.answers.len(), without.additionals.len(), without.metadata.truncation), (10, 0, false));
    }

    /// Pointers lead to the name of the service, wherever it is in the question, and in the case of the question.
    #[test]
    fn names_are_those_of_the_question() {
        for (name, part) in [
            ("Web.default.svc.cluster.local.", Part::Whole),
            ("_http._TCP.web.default.svc.cluster.local.", Part::Port("http".into())),
            ("_web._tcp.default.svc.cluster.local.", Part::Service),
        ] {
            let packed = pack(name, RecordType::SRV, part, 1);
            let (message, _) = encoded(&packed, reply(name, RecordType::SRV, true), 65_535);
            assert_eq!(message.answers[0].name.to_ascii(), name);
            assert_eq!(message.answers[0].ttl, 5);
            let RData::SRV(srv) = &message.answers[0].data else { panic!("{message}") };
            assert_eq!((srv.priority, srv.weight, srv.port), (0, 3, 8080));
            assert_eq!(srv.target.to_ascii(), "web-0.web.default.svc.cluster.local.");
            assert_eq!(message.additionals[0].name, srv.target, "{name}");
        }
    }

    #[test]
    fn a_cname_precedes_its_addresses_and_needs_them_not() {
        let host = Name::from_ascii("db.example.org.").unwrap();
        let all: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let packed = Packed::alias(host.clone(), 5).with_addresses(RecordType::A, 1, &all);
        let (message, _) = encoded(&packed, reply(SERVICE, RecordType::A, true), 512);
        let names: Vec<_> = message.answers.iter().map(|record| record.name.to_ascii()).collect();
        assert_eq!(names, [SERVICE, "db.example.org.", "db.example.org."]);
        assert_eq!(message.answers[0].data.to_string(), "db.example.org.");
        let alone = Packed::alias(host, 5);
        assert_eq!((alone.count(), alone.is_empty()), (1, false));
    }
}
