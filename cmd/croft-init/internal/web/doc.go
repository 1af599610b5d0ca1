// Package web serves terminals to browsers: one page of its own and a websocket for
// each terminal. It answers only on the addresses it is given, and only who asks
// for these or for the container's name, from its own page: whoever gets through has
// a shell in the container, so no other page of a browser may.
package web
