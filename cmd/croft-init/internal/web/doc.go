// Package web serves terminals to browsers: one page of its own and a websocket for each terminal. It
// answers only on the configured addresses, and only requests for these or for the container's name,
// from its own page: every client that connects has a shell in the container, so no other page of a
// browser may.
package web
