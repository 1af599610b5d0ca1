// Package engine is the one door to the node: whatever may change it is a
// reservation that a source yielded. One thread owns every decision and every
// record; it writes what is intended, has the effect done beside it, and takes
// its end as an event. What an event means is decided by package lifecycle.
package engine
