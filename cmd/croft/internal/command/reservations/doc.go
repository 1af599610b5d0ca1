// Package reservations has the commands on single documents in JSON: sign, push, get and
// verify. They need no project.
package reservations
