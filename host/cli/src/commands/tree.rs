//! `mortise tree`: the owners of a resource above it, what it owns below it; then its references and the references to
//! it, by fields of data and by owner references.

use std::pin::Pin;

use clap::Args;
use mortise_resource::{
    data::{GetTreeRequest, OnDelete, TreeLink, tree_link::By},
    pb,
};

use crate::{
    CliError, Connect, Exit, Session, Style, Tenancy, Ui,
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{self, Key, id_of, placed_title, read_if_there},
    resources::readiness::conditions,
};

pub(super) const EXAMPLES: &str = "\
mortise tree artist korn
mortise tree album/issues --depth 1";

/// Most owners looked up above a resource.
pub(super) const MAX_OWNERS: usize = 32;

/// Arguments of `tree`.
#[derive(Debug, Args)]
pub struct Tree {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME", required = true)]
    what: Vec<String>,
    /// Levels to show below the resource
    #[arg(long, value_name = "LEVELS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=64))]
    depth: u32,
    /// Most resources to show below the resource
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Tree {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let show = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let id = ids::one(&self.what, &catalog, &self.tenancy, &session)?;
        let resource = ids::read(&session, &id).await?;
        let owners = owners(&session, &resource).await?;
        let mut indent = String::new();
        for (position, owner) in owners.iter().rev().enumerate() {
            let branch = if position == 0 { "" } else { "└─ " };
            ui::line(format!("{indent}{branch}{}", owner.line(&show)))?;
            if position > 0 {
                indent.push_str("   ");
            }
        }
        let branch = if owners.is_empty() { "" } else { "└─ " };
        let own = Node::There(Box::new(resource.clone())).line(&show);
        ui::line(format!("{indent}{branch}{}", show.paint(Style::Bold, &own)))?;
        if !owners.is_empty() {
            indent.push_str("   ");
        }
        let mut below = Subtree { session: &session, show: &show, left: self.limit, cut: false };
        below.print(id_of(&resource), indent, self.depth).await?;
        let mut cut = below.cut;
        cut |= self.references(&session, &id_of(&resource)).await?;
        if cut {
            show.note("there is more; --limit and --depth show it");
        }
        Ok(Exit::Done)
    }

    /// Prints the references from and to the resource. Returns whether there is more.
    async fn references(&self, session: &Session, id: &pb::Id) -> Result<bool, CliError> {
        let request = GetTreeRequest { id: Some(id.clone()), depth: self.depth.clamp(1, MAX_DEPTH) };
        let call = async { session.ownership().get_tree(request).await };
        let tree = session.call(placed_title(id), call).await?;
        let limit = self.limit as usize;
        let refers = |link: &&TreeLink| !matches!(link.by, Some(By::Owner(_)) | None);
        let (up, down): (Vec<_>, Vec<_>) =
            (tree.up.iter().filter(refers).collect(), tree.down.iter().filter(refers).collect());
        for (title, links, shown) in
            [("refers to", &up, target as fn(&TreeLink) -> Option<&pb::Id>), ("referred to by", &down, dependent)]
        {
            if !links.is_empty() {
                ui::line(format!("{title}:"))?;
            }
            for link in links.iter().take(limit) {
                let indent = "  ".repeat(link.distance.max(1) as usize);
                let name = shown(link).map(placed_title).unwrap_or_default();
                ui::line(format!("{indent}{name}  {}", by(link)))?;
            }
        }
        if tree.hidden > 0 {
            ui::line(format!("and {} that you may not read", tree.hidden))?;
        }
        Ok(tree.is_cut || up.len() > limit || down.len() > limit)
    }
}

/// Deepest level to which the server follows references.
const MAX_DEPTH: u32 = 16;

fn target(link: &TreeLink) -> Option<&pb::Id> {
    link.target.as_ref()
}

fn dependent(link: &TreeLink) -> Option<&pb::Id> {
    link.dependent.as_ref()
}

/// Describes the origin of a link: `data.artist (block)`.
fn by(link: &TreeLink) -> String {
    let gone = if link.target.as_ref().is_some_and(|target| target.uid.is_empty()) { ", missing" } else { "" };
    match &link.by {
        Some(By::Field(field)) => format!("data.{field} ({}{gone})", on_delete(link.on_delete())),
        Some(By::OwnerReference(_)) => format!("owner reference{}", gone.replace(", missing", " (missing)")),
        Some(By::Owner(_)) | None => "owner".to_owned(),
    }
}

fn on_delete(policy: OnDelete) -> &'static str {
    match policy {
        OnDelete::Unspecified => "unspecified",
        OnDelete::Block => "block",
        OnDelete::Unset => "unset",
        OnDelete::Cascade => "cascade",
        OnDelete::AsyncUnset => "async unset",
        OnDelete::AsyncCascade => "async cascade",
        OnDelete::AllowDangling => "allow dangling",
    }
}

/// An owner, which may be gone.
pub(super) enum Node {
    There(Box<pb::Resource>),
    /// The owner is gone, or another resource has its name now.
    Gone(pb::Id),
}

impl Node {
    fn line(&self, ui: &Ui) -> String {
        match self {
            Self::There(resource) => {
                let name = placed_title(&id_of(resource));
                let marked = if mortise_resource::meta::is_marked(&resource.metadata) { " (deleting)" } else { "" };
                let conditions = conditions(resource).paint(ui);
                let conditions = if conditions.is_empty() { conditions } else { format!("  {conditions}") };
                format!("{name}{marked}{conditions}")
            }
            Self::Gone(id) => format!("{} {}", placed_title(id), ui.paint(Style::Bad, "(gone)")),
        }
    }

    /// The owner's name, with a note if it is gone.
    pub(super) fn title(&self) -> String {
        match self {
            Self::There(resource) => placed_title(&id_of(resource)),
            Self::Gone(id) => format!("{} (gone)", placed_title(id)),
        }
    }
}

/// Returns the owner, its owner, and so on.
pub(super) async fn owners(session: &Session, resource: &pb::Resource) -> Result<Vec<Node>, CliError> {
    let mut owners = Vec::new();
    let mut next = resource.owner.clone();
    let mut seen = vec![Key::of(&id_of(resource))];
    while let Some(id) = next.take() {
        if owners.len() == MAX_OWNERS || seen.contains(&Key::of(&id)) {
            break;
        }
        seen.push(Key::of(&id));
        match read_if_there(session, &id).await? {
            Some(owner) => {
                next = owner.owner.clone();
                owners.push(Node::There(Box::new(owner)));
            }
            None => owners.push(Node::Gone(id)),
        }
    }
    Ok(owners)
}

/// Returns the resources that this one owns itself.
pub(super) async fn owned(session: &Session, id: &pb::Id) -> Result<Vec<pb::Resource>, CliError> {
    let request = pb::ListByOwnerRequest { owner: Some(id.clone()) };
    let call = async { session.resources().list_by_owner(request).await };
    let mut resources = session.call(placed_title(id), call).await?.resources;
    resources.sort_by_key(|resource| Key::of(&id_of(resource)));
    Ok(resources)
}

/// Prints owned resources as a tree.
struct Subtree<'s> {
    session: &'s Session,
    show: &'s Ui,
    left: u32,
    cut: bool,
}

impl Subtree<'_> {
    fn print<'b>(
        &'b mut self,
        id: pb::Id,
        indent: String,
        depth: u32,
    ) -> Pin<Box<dyn Future<Output = Result<(), CliError>> + 'b>> {
        Box::pin(async move {
            let children = owned(self.session, &id).await?;
            if depth == 0 {
                self.cut |= !children.is_empty();
                return Ok(());
            }
            let last = children.len().saturating_sub(1);
            for (position, child) in children.into_iter().enumerate() {
                if self.left == 0 {
                    self.cut = true;
                    return Ok(());
                }
                self.left -= 1;
                let (branch, stem) = if position == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                let id = id_of(&child);
                ui::line(format!("{indent}{branch}{}", Node::There(Box::new(child)).line(self.show)))?;
                self.print(id, format!("{indent}{stem}"), depth - 1).await?;
            }
            Ok(())
        })
    }
}
