//! Exports of the provider with real cores: lock files, mirrors of files, of the network and of OCI registries, and
//! pages.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    mirror_server::{self, MirrorServer},
    real_core::{self, RealCore, output},
    rules::REQUIRED,
};
use crate::support::{Server, Setup, plugins::sha256};

/// The provider's directory in a mirror.
const PROVIDER: &str = "mortise.local/mortise/mortise";

fn platform() -> String {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    format!("{os}_{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" })
}

/// The first MiB of this program: enough for an export, which looks at the head alone, and for hashes.
fn small_program(dir: &Path) -> PathBuf {
    let (mut bytes, program) = (Vec::new(), dir.join("small"));
    let whole = fs::File::open(env!("CARGO_BIN_EXE_mortise")).unwrap();
    std::io::Read::read_to_end(&mut std::io::Read::take(whole, 1 << 20), &mut bytes).unwrap();
    fs::write(&program, bytes).unwrap();
    program
}

/// This program without its symbols, which are most of a debug build.
fn stripped_program(dir: &Path) -> PathBuf {
    let program = dir.join("mortise");
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_mortise")).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(env!("CARGO_BIN_EXE_mortise"), &program).unwrap();
    }
    program
}

/// Runs a command of `mortise provider`.
fn provider(server: &Server, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mortise"));
    output(command.arg("provider").args(arguments).args(["--grpc-addr", &server.grpc.to_string()]))
}

/// Exports to a mirror.
fn export(server: &Server, program: &Path, mirror: &Path) {
    let binary = format!("{}={}", platform(), program.display());
    let (exported, text) = provider(server, &["export", "--binary", &binary, "--out", mirror.to_str().unwrap()]);
    assert!(exported, "{text}");
}

/// The files of a mirror by their paths, as hashes.
fn files(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let hash = sha256(&fs::read(&path).unwrap());
                all.insert(path.strip_prefix(dir).unwrap().to_owned(), hash);
            }
        }
    }
    all
}

/// The configuration of a core in a directory, and of its installation.
struct Installation {
    core: RealCore,
    dir: tempfile::TempDir,
}

impl Installation {
    fn new(core: RealCore) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("main.tf"), REQUIRED).unwrap();
        Self { core, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn lock(&self) -> String {
        fs::read_to_string(self.path(".terraform.lock.hcl")).unwrap()
    }

    /// Installs from a mirror in a directory without an earlier installation.
    fn init(&self, method: &str, env: &[(&str, &str)], arguments: &[&str]) -> (bool, String) {
        let config = format!("provider_installation {{\n  {method}\n}}\n");
        fs::write(self.path("core.tfrc"), config).unwrap();
        let _ = fs::remove_dir_all(self.path(".terraform"));
        self.run(&[&["init"], arguments].concat(), env)
    }

    fn run(&self, arguments: &[&str], env: &[(&str, &str)]) -> (bool, String) {
        let mut command = self.core.command();
        command
            .args(arguments)
            .arg("-no-color")
            .current_dir(self.dir.path())
            .env_remove("TF_REATTACH_PROVIDERS")
            .env("TF_CLI_CONFIG_FILE", self.path("core.tfrc"))
            .env("MORTISE_GRPC_ADDR", "127.0.0.1:1")
            .envs(env.iter().copied());
        let (succeeds, text) = output(&mut command);
        // Core breaks lines anywhere.
        let text = text.replace(['│', '╷', '╵'], " ");
        (succeeds, text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

fn of_files(mirror: &Path) -> String {
    format!("filesystem_mirror {{\n    path = {mirror:?}\n  }}")
}

real_core::on_each_core!(a_lock_of_an_export_accepts_later_exports_of_every_schema_and_no_other_program);

async fn a_lock_of_an_export_accepts_later_exports_of_every_schema_and_no_other_program(core: RealCore) {
    let first = Setup::new().guest("changes").start().await;
    let changed = Setup::new().guest("changes").guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    let program = small_program(dir.path());
    let mirrors = ["one", "two", "changed", "other"].map(|name| dir.path().join(name));
    let [one, two, three, other] = &mirrors;
    export(&first, &program, one);
    export(&first, &program, two);
    assert_eq!(files(one), files(two), "an export depends on the program and the types alone");
    export(&changed, &program, three);
    let schema = Path::new(PROVIDER).join(env!("CARGO_PKG_VERSION")).join("schema.json");
    let without_schema = |mirror| files(mirror).into_iter().filter(|(path, _)| *path != schema).collect::<Vec<_>>();
    assert_eq!(without_schema(one), without_schema(three));
    assert_ne!(files(one).get(&schema).unwrap(), files(three).get(&schema).unwrap());

    let core = Installation::new(core);
    let (installed, text) = core.init(&of_files(one), &[], &[]);
    assert!(installed, "{text}");
    let lock = core.lock();
    let own = fs::read_to_string(one.join(PROVIDER).join(format!("{}.lock.hcl", env!("CARGO_PKG_VERSION")))).unwrap();
    let hash = lock.lines().find(|line| line.contains("\"h1:")).unwrap();
    assert!(own.contains(hash), "{hash}\n{own}");
    for mirror in [two, three] {
        let (installed, text) = core.init(&of_files(mirror), &[], &["-lockfile=readonly"]);
        assert!(installed, "{text}");
        assert_eq!(core.lock(), lock);
    }
    // No server can be reached: the schema beside the package counts, and that of the variable before it.
    let real = dir.path().join("real");
    export(&changed, &stripped_program(dir.path()), &real);
    let with_program = Installation::new(core.core);
    let (installed, text) = with_program.init(&of_files(&real), &[], &[]);
    assert!(installed, "{text}");
    fs::write(
        with_program.path("main.tf"),
        format!("{REQUIRED}resource \"mortise_fields_everything\" \"x\" {{\n  name = \"x\"\n  data {{}}\n}}\n"),
    )
    .unwrap();
    let (valid, text) = with_program.run(&["validate"], &[]);
    assert!(valid, "{text}");
    let old = one.join(&schema);
    let (valid, text) = with_program.run(&["validate"], &[("MORTISE_PROVIDER_SCHEMA", old.to_str().unwrap())]);
    assert!(!valid && text.contains("does not support resource type"), "{text}");
    let (valid, text) = with_program.run(&["validate"], &[("MORTISE_PROVIDER_SCHEMA", "/nonexistent")]);
    assert!(!valid && text.contains("no file with schemas of this release"), "{text}");

    let mut bytes = fs::read(&program).unwrap();
    bytes.push(0);
    let patched = dir.path().join("patched");
    fs::write(&patched, bytes).unwrap();
    export(&first, &patched, other);
    let (installed, text) = core.init(&of_files(other), &[], &["-lockfile=readonly"]);
    assert!(!installed && text.contains("doesn't match any of the checksums"), "{text}");
    // The mirror with the program of the lock refuses the other one, and stays as it is.
    let before = files(one);
    let binary = format!("{}={}", platform(), patched.display());
    let (exported, text) = provider(&first, &["export", "--binary", &binary, "--out", one.to_str().unwrap()]);
    assert!(!exported && text.contains("is another program, and lock files hold its hash"), "{text}");
    assert_eq!(files(one), before);
}

real_core::on_each_core!(a_network_mirror_of_an_export_fits_the_lock_entry_that_comes_with_it);

async fn a_network_mirror_of_an_export_fits_the_lock_entry_that_comes_with_it(core: RealCore) {
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    let mirror = dir.path().join("mirror");
    let program = small_program(dir.path());
    export(&server, &program, &mirror);
    let web = MirrorServer::start(mirror.clone()).await;
    let certificate = dir.path().join("web.pem");
    fs::write(&certificate, &web.certificate).unwrap();
    let trust = [("SSL_CERT_FILE", certificate.to_str().unwrap())];
    let method = format!("network_mirror {{\n    url = \"{}\"\n  }}", web.url);
    let version = env!("CARGO_PKG_VERSION");
    let entry = fs::read_to_string(mirror.join(PROVIDER).join(format!("{version}.lock.hcl"))).unwrap();
    let only = |kind: &str| {
        let is_kept = |line: &&str| !line.contains(":") || line.contains(kind);
        entry.lines().filter(is_kept).map(|line| format!("{line}\n")).collect::<String>()
    };
    for lock in [entry.clone(), only("\"h1:"), only("\"zh:")] {
        assert!(lock.contains("h1:") || lock.contains("zh:"), "{lock}");
        let core = Installation::new(core);
        fs::write(core.path(".terraform.lock.hcl"), &lock).unwrap();
        let (installed, text) = core.init(&method, &trust, &["-lockfile=readonly"]);
        assert!(installed, "{lock}\n{text}");
        let program =
            format!(".terraform/providers/{PROVIDER}/{version}/{}/terraform-provider-mortise_v{version}", platform());
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(core.path(&program)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o755);
    }
    // A zip with other bytes and the same content does not fit the hash of the zip.
    let zip = mirror.join(PROVIDER).join(format!("terraform-provider-mortise_{version}_{}.zip", platform()));
    let mut bytes = fs::read(&zip).unwrap();
    bytes.push(0);
    fs::write(&zip, bytes).unwrap();
    let core = Installation::new(core);
    fs::write(core.path(".terraform.lock.hcl"), only("\"zh:")).unwrap();
    let (installed, text) = core.init(&method, &trust, &["-lockfile=readonly"]);
    assert!(!installed && text.contains("checksum"), "{text}");
}

/// OpenTofu installs from the layout in a registry, by the lock entry that comes with the export; a registry with a
/// package of another program is refused.
#[tokio::test(flavor = "multi_thread")]
async fn opentofu_installs_an_export_from_an_oci_registry() {
    let Some(core) = RealCore::opentofu() else { return };
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (program, version) = (small_program(dir.path()), env!("CARGO_PKG_VERSION"));
    let export = |program: &Path, mirror: &str, layout: &str| {
        let (binary, out) = (format!("{}={}", platform(), program.display()), path(mirror));
        let oci = path(layout);
        let arguments = ["--binary", &binary, "--out", out.to_str().unwrap(), "--oci", oci.to_str().unwrap()];
        let (exported, text) = provider(&server, &[&["export"], &arguments[..]].concat());
        assert!(exported, "{text}");
    };
    export(&program, "mirror", "layout");
    let web = MirrorServer::start(path("registry")).await;
    mirror_server::push(&path("layout"), &path("registry"), "providers/mortise");
    fs::write(path("web.pem"), &web.certificate).unwrap();
    let certificate = path("web.pem");
    let trust = [("SSL_CERT_FILE", certificate.to_str().unwrap())];
    let host = web.url.trim_start_matches("https://");
    let method = format!(
        "oci_mirror {{\n    repository_template = \"{host}providers/mortise\"\n    include = [\"{PROVIDER}\"]\n  }}"
    );
    let entry = fs::read_to_string(path("mirror").join(PROVIDER).join(format!("{version}.lock.hcl"))).unwrap();
    for is_locked in [false, true] {
        let core = Installation::new(core);
        let arguments: &[&str] = if is_locked { &["-lockfile=readonly"] } else { &[] };
        if is_locked {
            fs::write(core.path(".terraform.lock.hcl"), &entry).unwrap();
        }
        let (installed, text) = core.init(&method, &trust, arguments);
        assert!(installed, "{text}");
        let hash = |kind: &str| entry.lines().find(|line| line.contains(kind)).unwrap().trim().to_owned();
        assert!(core.lock().contains(&hash("\"h1:")), "{}\n{entry}", core.lock());
        let program =
            format!(".terraform/providers/{PROVIDER}/{version}/{}/terraform-provider-mortise_v{version}", platform());
        assert!(core.path(&program).exists());
    }
    let mut bytes = fs::read(&program).unwrap();
    bytes.push(0);
    fs::write(path("patched"), bytes).unwrap();
    export(&path("patched"), "other-mirror", "other-layout");
    mirror_server::push(&path("other-layout"), &path("registry"), "providers/mortise");
    let core = Installation::new(core);
    fs::write(core.path(".terraform.lock.hcl"), &entry).unwrap();
    let (installed, text) = core.init(&method, &trust, &["-lockfile=readonly"]);
    assert!(!installed && text.contains("checksum"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_every_type_and_function_and_their_examples_are_valid() {
    let server = Setup::new().guest("every-field").guest("changes").start().await;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("docs");
    fs::create_dir_all(out.join("resources")).unwrap();
    for (name, head) in [("gone.md", "---\n# Made by `mortise provider docs`.\n"), ("hand.md", "# Hand\n")] {
        fs::write(out.join("resources").join(name), head).unwrap();
    }
    let (made, text) = provider(&server, &["docs", "--out", out.to_str().unwrap()]);
    assert!(made, "{text}");
    let stays = ["gone.md", "hand.md"].map(|name| out.join("resources").join(name).exists());
    assert_eq!(stays, [false, true], "pages of earlier runs go, and other files stay");
    fs::remove_file(out.join("resources/hand.md")).unwrap();
    let page = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for name in [
        "index.md",
        "resources/fields_everything.md",
        "data-sources/fields_everything.md",
        "data-sources/resources.md",
        "ephemeral-resources/fields_everything.md",
        "ephemeral-resources/token.md",
        "actions/plugin_reset.md",
        "list-resources/fields_everything.md",
        "functions/changes_concat.md",
    ] {
        assert!(page(name).starts_with("---\n# Made by `mortise provider docs`.\npage_title: "), "{name}");
    }
    let everything = page("resources/fields_everything.md");
    for line in [
        "# mortise_fields_everything (Resource)",
        "- `name` (String) The name: lower-case letters, digits and dashes. Another value replaces the resource.",
        "- `text` (String) The plugin converts it to lower case.",
        "- `secret_wo` (String, Sensitive, Write-only) `secret`, kept in no state and no plan. A change of \
         `secret_wo_version` writes it.",
        "### Nested Schema for `data.part`",
        "  id = \"default/default/example\"",
        "terraform import mortise_fields_everything.example default/default/example",
    ] {
        assert!(everything.lines().any(|found| found == line), "{line}\n{everything}");
    }
    assert!(everything.contains("- `old` (String, Deprecated)"), "{everything}");
    assert!(page("functions/changes_concat.md").contains("provider::mortise::changes_concat("));
    // Real cores find no fault in an example.
    let mut examples = REQUIRED.to_owned();
    let has_block =
        |path: &PathBuf| !["", "actions", "list-resources"].map(|dir| Some(Path::new(dir))).contains(&path.parent());
    for path in files(&out).into_keys().filter(has_block) {
        let page = page(path.to_str().unwrap());
        let example =
            page.split_once("## Example Usage\n\n```terraform\n").and_then(|(_, rest)| rest.split_once("```"));
        // Core 1.11 has no name for two blocks of a kind and name; each page has another type.
        examples.push_str(example.map(|(example, _)| example).unwrap_or_default());
    }
    assert!(examples.contains("resource \"mortise_fields_everything\" \"example\""), "{examples}");
    fs::write(dir.path().join("main.tf"), &examples).unwrap();
    fs::write(dir.path().join("none.tfrc"), "").unwrap();
    for core in [RealCore::terraform(), RealCore::opentofu()].into_iter().flatten() {
        let (valid, text) = core.run(dir.path(), &server, &["validate"]);
        assert!(valid, "{text}\n{examples}");
    }
    let Some(core) = RealCore::newer_terraform() else { return };
    let example = |path: &str| {
        let page = page(path);
        page.split_once("```terraform\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0.to_owned()
    };
    let actions = ["actions/backup.md", "actions/plugin_reset.md"].map(example).concat();
    fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{actions}")).unwrap();
    fs::write(dir.path().join("all.tfquery.hcl"), example("list-resources/fields_everything.md")).unwrap();
    let (valid, text) = core.run(dir.path(), &server, &["validate", "-query"]);
    assert!(valid, "{text}\n{actions}");
}
