//! Addresses, and the settings of their stores, which come from the environment.

use crate::CheckpointError;
use http::Uri;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};
use std::path::Path;
use std::time::Duration;

/// How long the client repeats a request that fails.
const RETRY: Duration = Duration::from_secs(20);

const RETRIES_MAX: usize = 4;

/// Bucket and key of `s3://BUCKET/KEY`.
pub(super) fn split(address: &Path) -> Result<(&str, &str), CheckpointError> {
    let rest = address.to_str().and_then(|address| address.strip_prefix("s3://")).unwrap_or_default();
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(CheckpointError::address(address, "it names no bucket; write s3://BUCKET/PREFIX"));
    }
    if let Some(other) = bucket.chars().find(|c| !c.is_ascii_alphanumeric() && !"-._".contains(*c)) {
        let reason = format!("names of buckets have letters, digits, dots and hyphens, and no '{other}'");
        return Err(CheckpointError::address(address, reason));
    }
    if key.starts_with('/') {
        return Err(CheckpointError::address(address, "a name in it is empty; write s3://BUCKET/PREFIX"));
    }
    Ok((bucket, key))
}

/// A client of a bucket, and the address of its server.
pub(super) fn client(address: &Path, bucket: &str) -> Result<(AmazonS3, String), CheckpointError> {
    // If the program has installed a provider of its own, that provider stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(4), ..BackoffConfig::default() };
    let retry = RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY };
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    let setting = |key| builder.get_config_value(&key);
    let endpoint = setting(AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(AmazonS3ConfigKey::Endpoint));
    let allows_http = setting(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    // Errors name the endpoint.
    if endpoint.as_ref().is_some_and(|endpoint| endpoint.contains('@')) {
        let reason = "AWS_ENDPOINT has a user's name; credentials are those of AWS_ACCESS_KEY_ID and \
            AWS_SECRET_ACCESS_KEY";
        return Err(CheckpointError::address(address, reason));
    }
    if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| endpoint.starts_with("http://"))
        && allows_http.as_deref() != Some("true")
    {
        return Err(CheckpointError::address(
            address,
            format!(
                "the endpoint {endpoint} is not encrypted; use https://, or set AWS_ALLOW_HTTP=true to allow it"
            ),
        ));
    }
    let endpoint = endpoint.unwrap_or_else(|| {
        let region = setting(AmazonS3ConfigKey::Region);
        format!("https://s3.{}.amazonaws.com", region.as_deref().unwrap_or("us-east-1"))
    });
    // The client puts these settings into requests without checking them, and would panic if one were
    // invalid.
    for (key, name) in [
        (AmazonS3ConfigKey::AccessKeyId, "AWS_ACCESS_KEY_ID"),
        (AmazonS3ConfigKey::Token, "AWS_SESSION_TOKEN"),
        (AmazonS3ConfigKey::Region, "AWS_REGION"),
    ] {
        if setting(key).is_some_and(|value| !value.bytes().all(|byte| byte.is_ascii_graphic())) {
            let reason = format!("{name} has a blank or another character that it must not have");
            return Err(CheckpointError::address(address, reason));
        }
    }
    let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    if !endpoint.parse().is_ok_and(|uri| is_http(&uri)) {
        let reason = format!("the endpoint {endpoint} is no address; set AWS_ENDPOINT to https://HOST");
        return Err(CheckpointError::address(address, reason));
    }
    let client = builder.build();
    let client = client.map_err(|error| {
        CheckpointError::address(address, format!("the settings in AWS_* variables are wrong: {error}"))
    })?;
    Ok((client, endpoint))
}
