// Package api is the explorer's HTTP interface: who may write what, the long
// poll, limits, and the errors that people read. The paths, documents and
// answers are described in openapi.yaml, which it serves as /openapi.json and
// is tested against.
//
// It owns no state but the waiters of the long poll and the rate limits;
// everything else is in package store.
package api
