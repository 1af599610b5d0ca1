// Package deploy carries a plan out: it signs, pushes, deletes, renews and waits, and keeps
// the state current at every step. Package plan decides the changes; package verdict decides
// whether an explorer's answer is believed.
//
// Each part has only its own dependencies: the Observer judges the explorer's answers, the
// Planner makes the planner's input, the Applier signs and pushes, the Remover signs deletions,
// the Renewer renewals, the Importer adopts existing reservations, and the Waiter waits for nodes.
package deploy
