// Package api is the explorer's HTTP interface: authorization of writes, the long poll, limits, and
// errors for people. Its paths, documents and answers are described in openapi.yaml, which it
// serves as /openapi.json and is tested against.
//
// It owns only the rate limits' state, the homes and the signatures of recent connects; everything
// else is in package store.
package api
