// Package explorer is the explorer's process: it joins the database and the HTTP interface,
// listens, and stops in order. Package api answers requests, package store keeps the data.
package explorer
