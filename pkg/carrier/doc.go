// Package carrier is what the processes that outlive the agent have in common:
// how one is started, found again and watched, its control socket, its control
// groups, its log. What it carries, and what is said on the socket beyond one
// line of JSON each way, is its module's.
//
// Below {run}/NAME a carrier has:
//
//	lock, start.lock    held by the carrier while it runs; by who starts one
//	pid                 its process ID, for people
//	socket              control, 0600, only for the same user
//	log, log.1          its log, bounded
package carrier
