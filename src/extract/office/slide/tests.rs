use super::*;
use crate::extract::zip_container::tests::{with_damaged_part, zipped};

fn relations(list: &[(&str, &str, &str)]) -> String {
    let one = |(id, kind, target): &(&str, &str, &str)| {
        format!(r#"<Relationship Id="{id}" Type="http://x/{kind}" Target="{target}"/>"#)
    };
    format!("<Relationships>{}</Relationships>", list.iter().map(one).collect::<String>())
}

/// Returns the place of a shape, in points.
fn form(left: i32, top: i32, width: i32, height: i32) -> String {
    let emu = |it: i32| it * 12_700;
    let (left, top, width, height) = (emu(left), emu(top), emu(width), emu(height));
    format!(r#"<a:xfrm><a:off x="{left}" y="{top}"/><a:ext cx="{width}" cy="{height}"/></a:xfrm>"#)
}

fn shape(placeholder: &str, properties: &str, text: &str) -> String {
    format!(
        "<p:sp><p:nvSpPr><p:cNvPr/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:spPr>{properties}</p:spPr><p:txBody><a:bodyPr/>{text}</p:txBody></p:sp>"
    )
}

fn paragraph(text: &str) -> String {
    format!("<a:p><a:r><a:t>{text}</a:t></a:r></a:p>")
}

fn tree(root: &str, before: &str, shapes: &str, after: &str) -> String {
    format!("<p:{root}><p:cSld>{before}<p:spTree>{shapes}</p:spTree></p:cSld>{after}</p:{root}>")
}

const TITLE: &str = r#"<p:ph type="title"/>"#;
const BODY: &str = r#"<p:ph idx="1"/>"#;

/// Makes a presentation of one slide with these shapes, a layout, a master and a theme.
fn presentation(shapes: &str) -> Vec<u8> {
    let theme = r#"<a:theme><a:clrScheme><a:dk1><a:srgbClr val="000000"/></a:dk1><a:lt1><a:srgbClr val="FFFFFF"/></a:lt1>
        <a:accent1><a:srgbClr val="4472C4"/></a:accent1></a:clrScheme></a:theme>"#;
    let styles = r#"<p:clrMap bg1="lt1" tx1="dk1"/><p:txStyles><p:titleStyle><a:lvl1pPr algn="ctr"><a:buNone/><a:defRPr sz="4400" b="1"/></a:lvl1pPr></p:titleStyle>
        <p:bodyStyle><a:lvl1pPr marL="228600" indent="-228600"><a:buChar char="&#8226;"/><a:defRPr sz="2800"/></a:lvl1pPr></p:bodyStyle></p:txStyles>"#;
    let background = r#"<p:bg><p:bgPr><a:solidFill><a:srgbClr val="102030"/></a:solidFill></p:bgPr></p:bg>"#;
    let fixed = shape("", &form(0, 500, 720, 40), &paragraph("Company"));
    let master = tree("sldMaster", background, &format!("{}{fixed}", shape(TITLE, &form(36, 20, 648, 90), "")), styles);
    let layout = tree("sldLayout", "", &shape(r#"<p:ph type="body" idx="1"/>"#, &form(36, 126, 648, 356), ""), "");
    zipped(&[
        (
            "ppt/presentation.xml",
            r#"<p:presentation><p:sldIdLst><p:sldId id="256" r:id="a"/></p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/></p:presentation>"#,
        ),
        ("ppt/_rels/presentation.xml.rels", &relations(&[("a", "slide", "slides/s.xml")])),
        ("ppt/slides/s.xml", &tree("sld", "", shapes, "")),
        (
            "ppt/slides/_rels/s.xml.rels",
            &relations(&[
                ("l", "slideLayout", "../l/l.xml"),
                ("p", "image", "../media/p.png"),
                ("e", "image", "../media/e.emf"),
            ]),
        ),
        ("ppt/l/l.xml", &layout),
        ("ppt/l/_rels/l.xml.rels", &relations(&[("m", "slideMaster", "../m/m.xml")])),
        ("ppt/m/m.xml", &master),
        ("ppt/m/_rels/m.xml.rels", &relations(&[("t", "theme", "../t.xml")])),
        ("ppt/t.xml", theme),
        ("ppt/media/p.png", "png"),
        ("ppt/media/e.emf", "emf"),
    ])
}

fn read(bytes: &[u8], number: u32) -> ReadResult<Slide> {
    read_slide(Input { bytes, name: "a.pptx" }, number, &ExtractLimits::default())
}

fn place(shape: &Shape) -> [i32; 4] {
    let Area { left, top, width, height } = shape.area;
    [left, top, width, height].map(|it| it.round() as i32)
}

fn text_of(shape: &Shape) -> String {
    let runs = shape.text.iter().flat_map(|it| &it.paragraphs).flat_map(|it| &it.runs);
    runs.map(|it| it.text.as_str()).collect()
}

#[test]
fn placeholders_take_place_and_style_from_layout_and_master() {
    let shapes = format!("{}{}", shape(TITLE, "", &paragraph("Plan")), shape(BODY, "", &paragraph("first item")));
    let slide = read(&presentation(&shapes), 1).unwrap();
    assert_eq!((slide.pages, slide.width, slide.height, slide.background), (1, 720.0, 540.0, [0x10, 0x20, 0x30]));
    let found: Vec<_> = slide.shapes.iter().map(|it| (text_of(it), place(it))).collect();
    let expected = [("Company", [0, 500, 720, 40]), ("Plan", [36, 20, 648, 90]), ("first item", [36, 126, 648, 356])];
    assert_eq!(found, expected.map(|(text, place)| (text.to_string(), place)));
    let title = &slide.shapes[1].text.as_ref().unwrap().paragraphs[0];
    assert_eq!(
        (title.align, title.runs[0].size, title.runs[0].bold, &title.bullet),
        (Align::Middle, 44.0, true, &None)
    );
    let item = &slide.shapes[2].text.as_ref().unwrap().paragraphs[0];
    assert_eq!(
        (item.bullet.as_deref(), item.margin, item.indent, item.runs[0].size),
        (Some("\u{2022}"), 18.0, -18.0, 28.0)
    );
}

#[test]
fn groups_tables_lines_and_pictures_have_places() {
    let group = format!(
        r#"<p:grpSp><p:grpSpPr><a:xfrm><a:off x="1270000" y="0"/><a:ext cx="1270000" cy="1270000"/><a:chOff x="0" y="0"/><a:chExt cx="2540000" cy="2540000"/></a:xfrm></p:grpSpPr>{}</p:grpSp>"#,
        shape("", &format!("{}<a:prstGeom prst=\"ellipse\"/>", form(100, 100, 100, 100)), &paragraph("round"))
    );
    let table = format!(
        r#"<p:graphicFrame>{}<a:tbl><a:tblGrid><a:gridCol w="1270000"/><a:gridCol w="635000"/></a:tblGrid><a:tr h="254000"><a:tc><a:txBody>{}</a:txBody></a:tc><a:tc><a:txBody>{}</a:txBody></a:tc></a:tr></a:tbl></p:graphicFrame>"#,
        form(10, 20, 150, 20).replace("a:xfrm", "p:xfrm"),
        paragraph("left"),
        paragraph("right")
    );
    let picture = |id: &str| {
        format!(
            r#"<p:pic><p:blipFill><a:blip r:embed="{id}"/><a:srcRect l="25000"/></p:blipFill><p:spPr>{}</p:spPr></p:pic>"#,
            form(5, 5, 50, 50)
        )
    };
    let line = format!(
        r#"<p:cxnSp><p:spPr>{}<a:ln w="25400"><a:solidFill><a:schemeClr val="accent1"/></a:solidFill></a:ln></p:spPr></p:cxnSp>"#,
        form(0, 0, 100, 0)
    );
    let shapes = format!("{group}{table}{}{}{}{line}", picture("p"), picture("p"), picture("e"));
    let slide = read(&presentation(&shapes), 1).unwrap();
    let own = &slide.shapes[1..];
    assert_eq!((place(&own[0]), own[0].geometry), ([150, 50, 50, 50], Geometry::Ellipse));
    assert_eq!((text_of(&own[1]), place(&own[1])), ("left".to_string(), [10, 20, 100, 20]));
    assert_eq!((text_of(&own[2]), place(&own[2])), ("right".to_string(), [110, 20, 50, 20]));
    let pictures: Vec<_> = own[3..6].iter().map(|it| it.picture.unwrap().index).collect();
    assert_eq!((pictures, own[3].picture.unwrap().crop), (vec![Some(0), Some(0), None], [0.25, 0.0, 0.0, 0.0]));
    assert_eq!(slide.pictures, [b"png".to_vec()]);
    assert_eq!(own[6].line.map(|it| (it.colour, it.width)), Some(([0x44, 0x72, 0xC4], 2.0)));
}

#[test]
fn damaged_and_huge_slides_fail_with_a_reason() {
    let bytes = presentation(&shape("", &form(0, 0, 10, 10), &paragraph("x")));
    assert_eq!(read(&bytes, 2).unwrap_err().reason, Reason::Damaged);
    assert_eq!(read(&bytes, 0).unwrap_err().reason, Reason::Damaged);
    assert!(read(&with_damaged_part(bytes, "ppt/slides/s.xml"), 1).is_err());
    assert!(read(b"PK no zip", 1).is_err());
    assert_eq!(read(&presentation("<p:sp><unclosed>"), 1).unwrap_err().reason, Reason::Damaged);
    let many = shape("", &form(0, 0, 10, 10), "").repeat(6_000);
    // Text that repeats itself may reach the limit of decompression first.
    let is_limit = |slide: &str| {
        matches!(read(&presentation(slide), 1).unwrap_err().reason, Reason::TooLarge | Reason::DecompressionLimit)
    };
    assert!(is_limit(&many));
    let long = shape("", &form(0, 0, 10, 10), &paragraph(&"x".repeat(60_000)));
    assert!(is_limit(&long));
    let nested = "<p:grpSp>".repeat(1_000) + &"</p:grpSp>".repeat(1_000);
    assert_eq!(read(&presentation(&nested), 1).unwrap_err().reason, Reason::Damaged);
}

#[test]
fn slides_are_known_by_their_extension() {
    assert!(has_slides("a.PPTX") && has_slides("b.ppsx"));
    assert!(!has_slides("a.odp") && !has_slides("a.ppt"));
}
