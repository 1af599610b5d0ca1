// Package deploy carries a plan out: it signs, pushes, deletes, renews and waits, and keeps
// the state current at every step. Package plan decides what is done; package verdict decides
// what an explorer is believed.
//
// Each part has the few things that it needs: the Observer judges what the explorer shows, the
// Planner makes the planner's input, the Applier signs and pushes, the Remover signs deletions,
// the Renewer renewals, the Importer takes over what is there, and the Waiter waits for nodes.
package deploy
