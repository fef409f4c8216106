//! Access control, and what answers may do in a browser.

use crate::server::Server;
use intendant_dashboard::{Dashboard, DashboardError, Settings};
use intendant_transport::Token;

const TOKEN: &str = "00112233445566778899aabbccddeeff";

fn with_token() -> Server {
    Server::start(Settings { token: Some(Token::from_hex(TOKEN).unwrap()), ..Settings::default() })
}

#[test]
fn every_answer_has_the_headers_of_a_careful_server() {
    let server = Server::start(Settings::default());
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/app.js"),
        ("GET", "/api/runs"),
        ("GET", "/nothing"),
        ("DELETE", "/"),
        ("POST", "/"),
    ] {
        let response = server.request(method, path, &[], &[]);
        let policy = response.header("content-security-policy").unwrap_or_default();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "connect-src 'self'",
        ] {
            assert!(policy.contains(part), "{method} {path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
}

#[test]
fn the_page_has_no_inline_script_or_style_and_names_no_other_site() {
    let server = Server::start(Settings::default());
    let page = server.get("/").text();
    assert!(page.contains("<script src=\"app.js\" defer></script>"), "{page}");
    assert_eq!(page.matches("<script").count(), 1);
    for forbidden in ["<style", "style=", "onclick", "onload", "javascript:", "http://", "https://"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(server.get("/").header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(server.get("/app.js").header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(server.get("/app.css").header("content-type"), Some("text/css; charset=utf-8"));
    assert!(server.get("/NOTICE.txt").text().contains("uPlot"));
}

#[test]
fn names_that_are_not_of_this_machine_are_refused() {
    let server = Server::start(Settings { hosts: vec!["proxy.example".to_owned()], ..Settings::default() });
    for host in ["localhost", "127.0.0.1:1", "[::1]", "proxy.example"] {
        assert_eq!(server.request("GET", "/api/runs", &[("Host", host)], &[]).status, 200, "{host}");
    }
    for host in ["evil.example", "10.1.2.3", "localhost.evil.example", ""] {
        let response = server.request("GET", "/api/runs", &[("Host", host)], &[]);
        assert_eq!(response.status, 403, "{host}");
        assert!(response.error().contains("--allow-host"), "{}", response.error());
    }
    let without = server.send(b"GET /api/runs HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!([400, 403].contains(&without.status), "{}", without.status);
}

#[test]
fn with_a_token_nothing_is_served_without_it() {
    let server = with_token();
    let bearer = format!("Bearer {TOKEN}");
    for path in ["/", "/app.js", "/api/runs", "/api/live", "/nothing"] {
        assert_eq!(server.get(path).status, 401, "{path}");
        for wrong in ["Bearer 00", "Bearer ffffffffffffffffffffffffffffffff", "Basic abc", "Bearer", ""] {
            assert_eq!(server.request("GET", path, &[("Authorization", wrong)], &[]).status, 401, "{wrong}");
        }
        assert_ne!(server.request("GET", path, &[("Authorization", &bearer)], &[]).status, 401, "{path}");
    }
    assert_eq!(server.request("POST", "/api/upload", &[], b"x").status, 401);
    let other = [("Authorization", bearer.as_str()), ("Host", "evil.example")];
    assert_eq!(server.request("GET", "/", &other, &[]).status, 403);
}

#[test]
fn a_browser_without_the_token_is_told_how_the_page_opens() {
    let server = with_token();
    let accept = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for path in ["/", "/?token=00", "/api/runs"] {
        let response = server.request("GET", path, &accept, &[]);
        assert_eq!(response.status, 401, "{path}");
        assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
        let page = response.text();
        assert!(page.contains("?token=TOKEN") && page.contains("--token-file"), "{page}");
        assert!(response.header("content-security-policy").is_some());
        for forbidden in ["<style", "style=", "<script", TOKEN] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
    // Programs get an answer that they can read.
    assert!(server.get("/").error().contains("Authorization: Bearer TOKEN"));
    assert!(server.request("POST", "/api/upload", &accept, b"x").error().contains("token"));
}

#[test]
fn a_token_in_the_address_becomes_a_cookie_that_does_not_hold_it() {
    let server = with_token();
    let admitted = server.get(&format!("/?token={TOKEN}"));
    assert_eq!((admitted.status, admitted.header("location")), (303, Some("/")));
    let cookie = admitted.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=lax"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "other servers of this machine see cookies");
    let pair = cookie.split(';').next().unwrap();
    let several = format!("a=b; {pair}; c=d");
    assert_eq!(server.request("GET", "/api/runs", &[("Cookie", &several)], &[]).status, 200);
    let name = pair.split('=').next().unwrap();
    for wrong in [
        format!("{name}="),
        format!("{name}={TOKEN}"),
        format!("{name}={}", "0".repeat(64)),
        format!("x{pair}"),
    ] {
        assert_eq!(server.request("GET", "/api/runs", &[("Cookie", &wrong)], &[]).status, 401, "{wrong}");
    }
    assert_eq!(server.get("/?token=ffffffffffffffffffffffffffffffff").status, 401);
    let rebound = [("Host", "evil.example")];
    assert_eq!(server.request("GET", &format!("/?token={TOKEN}"), &rebound, &[]).status, 403);
}

#[test]
fn only_reading_and_uploads_are_served() {
    let server = Server::start(Settings::default());
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"] {
        assert!([400, 405].contains(&server.request(method, "/api/runs", &[], &[]).status), "{method}");
    }
    assert_eq!(server.request("POST", "/api/runs", &[], &[]).status, 405);
    assert_eq!(server.get("/api/upload").status, 405);
    for path in ["/", "/app.js"] {
        assert_eq!(server.request("POST", path, &[], &[]).status, 405, "{path}");
    }
    assert_eq!(server.request("POST", "/nothing", &[], &[]).status, 404);
}

#[test]
fn other_sites_cannot_upload() {
    let server = Server::start(Settings::default());
    let own = format!("http://{}", server.address);
    for (name, value, status) in [
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Origin", own.as_str(), 400),
        ("Sec-Fetch-Site", "same-origin", 400),
    ] {
        let response = server.request("POST", "/api/upload", &[(name, value)], b"[]\n");
        assert_eq!(response.status, status, "{name}: {value}: {}", response.text());
    }
}

#[test]
fn paths_lead_to_no_files() {
    let server = Server::start(Settings::default());
    for path in [
        "/../Cargo.toml",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/app.js/../../x",
        "/web/dist/app.js",
        "/api/runs/..%2f..%2fetc%2fpasswd",
        "/api/runs/%00",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |listen: &str, token: Option<Token>| {
        runtime.block_on(Dashboard::bind(Settings {
            listen: listen.to_owned(),
            token,
            ..Settings::default()
        }))
    };
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let refused = bind(listen, None).unwrap_err();
        assert!(matches!(refused, DashboardError::Open { .. }) && refused.is_usage(), "{refused}");
        assert!(refused.to_string().contains("--token-file"), "{refused}");
    }
    assert!(bind("0.0.0.0:0", Some(Token::from_hex(TOKEN).unwrap())).is_ok());
    let taken = bind("127.0.0.1:0", None).unwrap();
    let refused = bind(&taken.address().to_string(), None).unwrap_err();
    assert!(refused.to_string().contains("--listen"), "{refused}");
    assert!(bind("nonsense", None).is_err());
}

#[test]
fn traces_that_cannot_be_shown_are_told_and_alone_end_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::create_dir(path("good")).unwrap();
    std::fs::write(path("a.zip"), b"PK\x03\x04 and so on").unwrap();
    crate::synthetic::Synthetic::new(3, 50).write(&path("good"));
    let mut damaged = b"PAR1".to_vec();
    damaged.extend_from_slice(&[7; 100]);
    std::fs::write(path("damaged.parquet"), damaged).unwrap();
    let settings = |names: &[&str]| Settings {
        listen: "127.0.0.1:0".to_owned(),
        traces: names.iter().map(|name| path(name)).collect(),
        ..Settings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused =
        runtime.block_on(Dashboard::bind(settings(&["empty", "a.zip", "damaged.parquet"]))).unwrap_err();
    assert!(matches!(refused, DashboardError::Unusable { .. }) && refused.is_usage(), "{refused}");
    for reason in ["empty: it has no traces", "a.zip: it is an archive", "damaged.parquet is damaged"] {
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    // With a cluster or another trace, there is something to show, and the cards tell what is wrong.
    let live = Settings { live: Some("127.0.0.1:1".parse().unwrap()), ..settings(&["empty"]) };
    assert!(runtime.block_on(Dashboard::bind(live)).is_ok());
    let server = Server::start(settings(&["empty", "good", "a.zip"]));
    let start = tokio::time::Instant::now();
    let errors = loop {
        let runs = server.json("/api/runs")["runs"].clone();
        let errors: Vec<String> =
            (0..3).map(|at| runs[at]["error"].as_str().unwrap_or_default().to_owned()).collect();
        // The last one is read while the server is up.
        if !errors[2].is_empty() {
            break errors;
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "{runs}");
        std::thread::yield_now();
    };
    assert!(errors[0].contains("it has no traces") && errors[1].is_empty(), "{errors:?}");
    assert!(errors[2].contains("it is an archive"), "{errors:?}");
}

#[test]
fn endless_headers_end_the_connection() {
    let server = Server::start(Settings::default());
    let long = "x".repeat(1 << 20);
    let response = server.request("GET", &format!("/{long}"), &[], &[]);
    assert!([0, 400, 414, 431].contains(&response.status), "{}", response.status);
    let response = server.request("GET", "/", &[("X-Long", &long)], &[]);
    assert!([0, 400, 431].contains(&response.status), "{}", response.status);
    assert_eq!(server.get("/").status, 200);
}

/// At any time, there are more silent connections than places.
#[test]
fn silent_connections_keep_no_one_out() {
    let server = Server::start(Settings::default());
    let connect = || std::net::TcpStream::connect(server.address).unwrap();
    let mut silent: Vec<std::net::TcpStream> = (0..100).map(|_| connect()).collect();
    for _ in 0..20 {
        assert_eq!(server.get("/api/runs").status, 200);
        silent.extend((0..10).map(|_| connect()));
    }
}
