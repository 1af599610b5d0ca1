// Package explorer holds the explorer's API as the other side sees it: the
// wire types of the HTTP interface, and its client.
package explorer
