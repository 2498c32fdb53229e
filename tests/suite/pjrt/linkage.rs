//! Calls of a plugin, linked with the scopes that make them.

use std::ptr::null;

use zprof::{Linkage, Platform, ProfilerOptions};
use zprof_tests::fake::{Fake, library, spin};
use zprof_tests::profile::{Recorded, Stat, exclusive, stats};

use super::ONE_SESSION;

/// Ids of two linked calls of the fake, and the profile of the session around them.
fn linked(words: &str) -> (Fake, [Option<i64>; 2], Recorded) {
    let fake = Fake::new(words);
    let platform = Platform::load(library()).expect("the fake is a plugin");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let mut profiler = platform.profiler(options).expect("good options");
    profiler.start().expect("nothing else runs");
    let ids = zprof::scope!("step", root = true, step_num = 1, {
        assert_eq!(Linkage::execute(&Platform::host()).id(), None);
        [Linkage::compile(&platform), Linkage::execute(&platform)].map(|link| {
            let found = fake.execute(Some(&link));
            assert_eq!(found, link.id().unwrap_or(-1));
            spin();
            link.id()
        })
    });
    let profile = profiler.stop().expect("the files can be written").expect("it was running");
    (fake, ids, Recorded::of(profile))
}

#[test]
fn a_linked_call_names_the_scope_that_made_it() {
    let _alone = exclusive();
    let (fake, ids, recorded) = linked("space=host");
    assert_eq!(fake.counts(), ONE_SESSION, "the fake has checked the extension");
    let [Some(compile), Some(execute)] = ids else { panic!("no ids: {ids:?}") };
    assert_ne!(compile, execute);

    let line = recorded.own_line();
    let producer = |id| stats([("_pt", Stat::Int(14)), ("_p", Stat::Int(id))]);
    let consumer = |id| stats([("_ct", Stat::Int(14)), ("_c", Stat::Int(id))]);
    let step = stats([("step_num", Stat::Int(1)), ("_r", Stat::Int(1))]);
    let told: Vec<_> = line.told().into_iter().map(|(name, stats)| (name, stats.clone())).collect();
    let expected = [
        ("step", step),
        ("PJRT_Client_Compile linkage", producer(compile)),
        ("PJRT_LoadedExecutable_Execute linkage", producer(execute)),
        ("PJRT_LoadedExecutable_Execute", consumer(compile)),
        ("PJRT_LoadedExecutable_Execute", consumer(execute)),
    ];
    assert_eq!(told, expected);
    let step = line.event("step");
    assert!(line.events.iter().all(|event| event == step || event.is_inside(step)), "{}", line.tree());
}

#[test]
fn a_call_is_not_linked_where_nobody_would_see_it() {
    let _alone = exclusive();
    let not = |platform: &Platform| {
        let links = [Linkage::execute(platform), Linkage::compile(platform)];
        assert_eq!(links.each_ref().map(|link| (link.as_ptr(), link.id())), [(null(), None); 2], "{platform:?}");
        assert_eq!(format!("{:?}", links[0]), "Linkage { id: None }");
    };
    {
        let _fake = Fake::new("");
        not(&Platform::load(library()).expect("the fake is a plugin"));
    }
    for (words, profiles) in [("space=empty,no-profiler", false), ("space=empty,minor=44", true)] {
        let (fake, ids, recorded) = linked(words);
        assert_eq!(ids, [None; 2], "{words}");
        assert_eq!(recorded.own_line().names(), ["step"], "{words}");
        assert_eq!(fake.counts().misused, 0);
        assert_eq!(Platform::load(library()).expect("the fake is a plugin").has_profiler(), profiles, "{words}");
    }
}
