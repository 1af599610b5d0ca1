// Package mesh knows how a private network spans nodes: which of them can call
// which, the ranges that each accepts from the others, and the free ranges, ports
// and names. It is pure but for the making of keys.
//
// A node with an endpoint is public: others call it. One without is hidden: it
// calls every public node and keeps the tunnels open, so that public nodes
// reach it too. Two hidden nodes, which can't call each other, meet at the
// relay, the network's first public node. An access is an outside peer, such as
// a laptop, that calls one public node, which relays for it.
package mesh
