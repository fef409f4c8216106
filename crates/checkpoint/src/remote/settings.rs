//! Addresses, and the settings of their stores, which come from the environment.

use crate::CheckpointError;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};
use std::path::Path;
use std::time::Duration;

/// Requests are made again for so long.
const RETRY: Duration = Duration::from_secs(20);

const RETRIES_MAX: usize = 4;

/// Bucket and key of `s3://BUCKET/KEY`.
pub(super) fn split(address: &Path) -> Result<(&str, &str), CheckpointError> {
    let rest = address.to_str().and_then(|address| address.strip_prefix("s3://")).unwrap_or_default();
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(CheckpointError::address(address, "it names no bucket; write s3://BUCKET/PREFIX"));
    }
    if key.starts_with('/') {
        return Err(CheckpointError::address(address, "a name in it is empty; write s3://BUCKET/PREFIX"));
    }
    Ok((bucket, key))
}

/// A client of a bucket, and the address of its server.
pub(super) fn client(address: &Path, bucket: &str) -> Result<(AmazonS3, String), CheckpointError> {
    // The program's own choice, if it has made one, stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(4), ..BackoffConfig::default() };
    let retry = RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY };
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    let setting = |key| builder.get_config_value(&key);
    let endpoint = setting(AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(AmazonS3ConfigKey::Endpoint));
    let allows_http = setting(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
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
    let client = builder.build();
    let client = client.map_err(|error| {
        CheckpointError::address(address, format!("the settings in AWS_* variables are wrong: {error}"))
    })?;
    Ok((client, endpoint))
}
