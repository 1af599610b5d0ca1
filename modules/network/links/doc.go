// Package links brings the links of one network namespace to a desired state:
// whether they are there and up, their addresses, routes, bridge and rates.
//
// A Reconciler compares first. It mends the differences, or only lists them: so
// making what exists, looking for drift and mending it are one piece of code. Of
// routes and queueing disciplines it changes those that croft has made, which it
// marks; it owns no link, and doesn't decide which links there are.
package links
