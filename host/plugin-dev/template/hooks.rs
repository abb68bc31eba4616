/// Fills in defaults. A second call, on its own answer, changes nothing.
fn fill_in(resource: &mut Typed<{{message}}>) -> Result<(), Diagnostics> {
    if resource.data.priority == 0 {
        resource.data.priority = 3;
    }
    Ok(())
}

/// Checks the answer of `fill_in`. The second argument is the stored resource.
fn judge(resource: &Typed<{{message}}>, _stored: Option<&Typed<{{message}}>>, diagnostics: &mut Diagnostics) {
    let title = &resource.data.title;
    if title.is_empty() {
        diagnostics.error("title required").at(field("title"));
    }
    if title.chars().count() > 100 {
        diagnostics.error("title must have at most 100 characters").at(field("title"));
    }
    if resource.data.priority > 10 {
        diagnostics.error("priority must be 1 to 10").at(field("priority"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_plugin::pb::Id;

    #[test]
    fn priority_has_a_default() {
        let mut resource = Typed::new(Id::default(), {{message}}::default());
        assert!(fill_in(&mut resource).is_ok());
        assert_eq!(resource.data.priority, 3);
    }
}
