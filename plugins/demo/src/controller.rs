//! The demo controller: every artist gets albums.
//!
//! An artist gets three albums, a blues artist ten. The albums follow from the time at which the artist was created, so
//! that deleted albums come back unchanged. Other albums of the artist are deleted if their names begin with the
//! artist's name.
//!
//! The controller runs only with `[plugin.demo.settings] controller = true`, since clients that test against the demo
//! types do not expect other writers.

use mortise_plugin::{
    Condition, Context, Controller, Error, Kind, Mapper, Outcome, Reconciler, Request, Status, Typed, Watch,
    reference_to,
};

use crate::proto::hashicorp::consul::internal::demo::v2::{Album, Artist, Genre};

pub(crate) const ARTIST: Kind<Artist> = Kind::new("demo", "v2", "Artist");
pub(crate) const ALBUM: Kind<Album> = Kind::new("demo", "v2", "Album");

pub(crate) static ARTISTS: Controller<Artists> =
    Controller::new("artists", ARTIST, Artists).watches(&[&Watch::new(ALBUM, Mapper::Owner)]).only_if("controller");

/// Longest part of an artist's name in the names of albums: a name has 63 characters, and the rest may take 20.
const MAX_STEM_CHARACTERS: usize = 43;

pub(crate) struct Artists;

impl Reconciler for Artists {
    type Managed = Artist;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Artist>) -> Result<Outcome, Error> {
        let Some(artist) = request.read(ctx)?.filter(|artist| !artist.is_marked()) else {
            return Ok(Outcome::Done);
        };

        let wanted = albums(&artist);
        let mut found = Vec::new();
        let prefix = stem(&artist);
        for album in ctx.owned(ALBUM, artist.id())? {
            if wanted.iter().any(|one| one.name() == album.name()) {
                found.push(album.name().to_owned());
            } else if album.name().starts_with(&prefix) {
                ctx.delete(album.id())?;
            }
        }

        let accepted = Condition::holds("Accepted").reason("Accepted").message("The artist has a record deal.");
        let mut status = Status::new("consul.io/artist-controller", &artist).with(accepted);
        for album in &wanted {
            if !found.iter().any(|name| name == album.name()) {
                ctx.write(album)?;
            }
            let message = format!("Album {:?} is out.", album.data.title);
            let created = Condition::holds("AlbumCreated").reason("AlbumCreated").message(message);
            status.push(created.about(reference_to(album.id())));
        }
        status.write_if_changed(ctx, &artist)?;
        Ok(Outcome::Done)
    }
}

/// Wanted albums of an artist.
fn albums(artist: &Typed<Artist>) -> Vec<Typed<Album>> {
    let count = if artist.data.genre() == Genre::Blues { 10 } else { 3 };
    let mut dice = PseudoRandom(created(&artist.id().uid));
    let (stem, tenancy) = (stem(artist), artist.id().tenancy.clone().unwrap_or_default());
    let album = |number: u64| {
        let (adjective, noun) = (dice.pick(&ADJECTIVES), dice.pick(&NOUNS));
        let tracks = (0..dice.below(6).saturating_add(5)).map(|_| {
            let (adjective, noun) = (dice.pick(&ADJECTIVES), dice.pick(&NOUNS));
            title(adjective, noun)
        });
        let tracks = tracks.collect();
        let data = Album {
            title: title(adjective, noun),
            year_of_release: i32::try_from(dice.below(60)).unwrap_or_default().saturating_add(1965),
            critically_aclaimed: dice.below(3) == 0,
            tracks,
        };
        Typed::new(ALBUM.id(format!("{stem}{adjective}-{noun}-{number}"), &tenancy), data).owned_by(artist.id())
    };
    (0..count).map(album).collect()
}

/// Beginning of the names of an artist's albums.
fn stem(artist: &Typed<Artist>) -> String {
    format!("{}-", artist.name().get(..MAX_STEM_CHARACTERS).unwrap_or(artist.name()))
}

/// Title from two words: `quiet`, `river` become `Quiet River`.
fn title(adjective: &str, noun: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    format!("{} {}", capital(adjective), capital(noun))
}

/// Milliseconds in a ULID: its first ten characters, base 32.
fn created(ulid: &str) -> u64 {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |byte: u8| DIGITS.iter().position(|one| *one == byte.to_ascii_uppercase());
    let digits = ulid.bytes().take(10).map(|byte| digit(byte).unwrap_or_default());
    digits.fold(0_u64, |sum, digit| sum.wrapping_mul(32).wrapping_add(u64::try_from(digit).unwrap_or_default()))
}

/// Pseudo-random numbers that are always the same (splitmix64).
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or_default()
    }

    fn pick(&mut self, words: &[&'static str; 16]) -> &'static str {
        let chosen = usize::try_from(self.below(16)).unwrap_or_default();
        words.get(chosen).copied().unwrap_or("silent")
    }
}

const ADJECTIVES: [&str; 16] = [
    "ancient", "bitter", "broken", "crimson", "distant", "electric", "frozen", "golden", "hollow", "lonesome",
    "midnight", "neon", "quiet", "restless", "velvet", "wild",
];

const NOUNS: [&str; 16] = [
    "avenue", "canyon", "carnival", "echo", "garden", "highway", "horizon", "lantern", "machine", "mirror", "ocean",
    "parade", "river", "shadow", "thunder", "winter",
];

#[cfg(test)]
mod tests;
