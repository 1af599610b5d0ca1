// Package mesh knows how a private network spans nodes: which of them can call
// which, what each lets through from the others, and what of its ranges, ports
// and names is still free. It is pure but for the making of keys.
//
// A node with an endpoint is public: others call it. One without is hidden: it
// calls every public node and keeps the tunnels open, so that public nodes
// reach it too. Two hidden nodes, which can't call each other, meet at the
// relay, the network's first public node. An access is somebody outside, such
// as a laptop, who calls one public node, the one it goes by way of.
package mesh
