// Package carrier manages the processes that outlive the agent, whatever they carry:
// how one is started, found again and watched, its control socket, its control
// groups, its log.
//
// A Kind is one sort of carrier. Its process calls Serve, and adds its operations
// with Handle: a request and an answer are one document each. Its client comes
// from Ensure, and calls Ask. The documents, and the carried things, are the kind's.
//
// Carriers survive upgrades of the agent, so a carrier and its client may be of
// different versions of croft: while Kind.Protocol stays the same, operations and
// members of documents are only added, and a client expects that an older carrier
// refuses a new one. A carrier of another Protocol returns its Info, and stops.
//
// Below {run}/NAME a carrier has:
//
//	lock, start.lock    held by the carrier while it runs; by the process that starts one
//	pid                 its process ID, for people
//	socket              control, 0600, only for the same user
//	log, log.1          its log, bounded
package carrier
