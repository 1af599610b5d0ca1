// Package workqueue holds keys that are to be handled: when each comes due, and how often its handling
// has failed. Schedule is the pure part, for an owner that has a clock and a thread of its own, such
// as the engine. Queue runs a handler for each key that is due.
//
// Glossary: a key is due when its time has come. It is failing when its last handling failed. To forget a
// key is to forget its failures.
//
// A Queue handles a key as follows:
//
//	Add ──► waiting ──(due)──► valid? ──no──► forgotten, done
//	          ▲                  │yes
//	          │                  ▼
//	          ├──(error, after a backoff)── Handle ──ok──► forgotten, done
//	          └──(added meanwhile, at once)───┘
package workqueue
