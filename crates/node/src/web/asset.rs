//! The files of the page. They are part of the binary.

/// What a page of ours may do: load its own files, and ask its own node. It is shown in no other page, and sends
/// nothing anywhere.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Its name below `/assets/`; empty for the page itself, at `/`.
    name: &'static str,
    /// Its media type.
    pub(crate) content_type: &'static str,
    /// What is in it.
    pub(crate) text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! page {
    ($($name:literal $file:literal $content_type:expr,)*) => {
        [$(Asset { name: $name, content_type: $content_type, text: include_str!(concat!("page/", $file)) },)*]
    };
}

static ASSETS: [Asset; 19] = page! {
    "" "index.html" "text/html; charset=utf-8",
    "style.css" "style.css" "text/css; charset=utf-8",
    "cards.svg" "cards.svg" "image/svg+xml",
    "app.js" "app.js" SCRIPT,
    "axis.js" "axis.js" SCRIPT,
    "chart.js" "chart.js" SCRIPT,
    "charts.js" "charts.js" SCRIPT,
    "counted.js" "counted.js" SCRIPT,
    "dom.js" "dom.js" SCRIPT,
    "events.js" "events.js" SCRIPT,
    "map.js" "map.js" SCRIPT,
    "model.js" "model.js" SCRIPT,
    "picture.js" "picture.js" SCRIPT,
    "ring.js" "ring.js" SCRIPT,
    "route.js" "route.js" SCRIPT,
    "table.js" "table.js" SCRIPT,
    "tables.js" "tables.js" SCRIPT,
    "theme.js" "theme.js" SCRIPT,
    "tiles.js" "tiles.js" SCRIPT,
};

/// The file at a path, given in its parts; none if it is not one of the page.
pub(crate) fn find(path: &[&str]) -> Option<&'static Asset> {
    let name = match *path {
        [""] => "",
        ["assets", name] if !name.is_empty() => name,
        _ => return None,
    };
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes < 90_000, "{bytes} bytes");
    }

    #[test]
    fn files_are_found_by_their_paths_only() {
        assert!(find(&[""]).is_some_and(|page| page.text.starts_with("<!doctype html>")));
        assert!(find(&["assets", "app.js"]).is_some_and(|file| file.content_type == SCRIPT));
        for path in
            [&["assets", ""][..], &["assets"], &["assets", "..", "app.js"], &["app.js"], &["", ""], &[]]
        {
            assert!(find(path).is_none(), "{path:?}");
        }
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for asset in &ASSETS {
            // The name of a vocabulary is no address that is asked.
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http:", "https:", "//cdn", "@import", "url(", "eval(", "innerHTML", " style=\""]
            {
                assert!(!text.contains(outside), "{outside} in {:?}", asset.name);
            }
        }
    }

    #[test]
    fn what_the_page_asks_for_is_there() {
        for asset in &ASSETS {
            for part in asset.text.split(['"', '\'']) {
                let name = part.strip_prefix("/assets/").or_else(|| part.strip_prefix("./"));
                if let Some(name) = name {
                    assert!(find(&["assets", name]).is_some(), "{part} of {:?}", asset.name);
                }
            }
        }
    }
}
