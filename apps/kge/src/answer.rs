//! What a trained model answers: the most probable objects or subjects of a relation, the nearest neighbours
//! of an entity, and how well it predicts other triples.

use crate::data::{Dataset, Known, Triple};
use crate::evaluate::Ranking;
use crate::model::{ModelKind, Scorer};
use clap::ValueEnum;
use intendant_core::{Element, Key};
use intendant_trained::{Export, Hit, Named, Table, TrainedError, top};
use std::sync::{Arc, OnceLock};

/// Which entity of a triple is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of (?, relation, entity).
    Subject,
    /// That of (entity, relation, ?).
    Object,
}

/// A triple of which one entity is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The entity that is asked for.
    pub side: Side,
    /// The other entity.
    pub entity: u32,
    /// The relation.
    pub relation: u32,
}

/// A trained model.
#[derive(Debug)]
pub struct Trained<E> {
    scorer: Scorer,
    entities: Named,
    relations: Named,
    entity: Table<E>,
    relation: Table<E>,
    reciprocal: Option<Table<E>>,
    /// The entities, each scaled to length 1, once neighbours were asked for.
    unit: OnceLock<Table<E>>,
}

impl<E: Element> Trained<E> {
    /// Reads an export.
    ///
    /// # Errors
    /// If a file cannot be read, or the files do not fit to each other.
    pub fn read(export: &Export) -> Result<Self, TrainedError> {
        let (entities, relations) = (
            Named::read(export, "entity_ids.txt", "entity")?,
            Named::read(export, "relation_ids.txt", "relation")?,
        );
        let entity = export.table::<E>("entity")?;
        let name = export.setting("model").and_then(serde_json::Value::as_str).unwrap_or_default();
        let model = ModelKind::from_str(name, false)
            .map_err(|_| export.wrong("export.json", format!("there is no model '{name}'")))?;
        let scorer = Scorer { model, dim: entity.columns() };
        if entity.rows() != entities.names().len() {
            let (rows, names) = (entity.rows(), entities.names().len());
            return Err(
                export.wrong("entity.npy", format!("it has {rows} rows, and there are {names} names"))
            );
        }
        let relation_table =
            |name| export.table_of::<E>(name, relations.names().len(), scorer.relation_len());
        let relation = relation_table("relation")?;
        let has_reciprocal = export.has("reciprocal.npy");
        let reciprocal = has_reciprocal.then(|| relation_table("reciprocal")).transpose()?;
        let unit = OnceLock::new();
        Ok(Self { scorer, entities, relations, entity, relation, reciprocal, unit })
    }

    /// Computes now what answers need and share. Otherwise the first answers compute it.
    pub fn prepare(&self) {
        self.entity.norms();
        self.unit().norms();
    }

    fn unit(&self) -> &Table<E> {
        self.unit.get_or_init(|| self.entity.unit())
    }

    /// Numbers of an entity's embedding.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.scorer.dim
    }

    /// Names of the entities.
    #[must_use]
    pub fn entities(&self) -> &Named {
        &self.entities
    }

    /// Names of the relations.
    #[must_use]
    pub fn relations(&self) -> &Named {
        &self.relations
    }

    /// For each question, the `count` best answers, with the scores of the evaluation. The entities in
    /// `left_out`, one ascending list for each question, are no answers; without lists, all are.
    ///
    /// # Panics
    /// If the model has no such entity or relation, or there is another number of lists than questions.
    pub fn predict(
        &self,
        questions: &[Question],
        count: usize,
        left_out: &[&[u32]],
        threads: usize,
    ) -> Vec<Vec<Hit>> {
        let mut queries = vec![E::ZERO; questions.len() * self.scorer.dim];
        for (question, query) in questions.iter().zip(queries.chunks_exact_mut(self.scorer.dim)) {
            let (relations, inverse) = match (question.side, &self.reciprocal) {
                (Side::Object, _) => (&self.relation, false),
                (Side::Subject, Some(reciprocal)) => (reciprocal, false),
                (Side::Subject, None) => (&self.relation, true),
            };
            let (entity, relation) =
                (self.entity.row(question.entity as usize), relations.row(question.relation as usize));
            self.scorer.compose(entity, relation, inverse, query);
        }
        top(&self.entity, &queries, count, left_out, threads)
    }

    /// For each of `entities`, the `count` others whose embeddings have the largest cosine similarity with
    /// its own.
    ///
    /// # Panics
    /// If the model has no such entity.
    pub fn neighbors(&self, entities: &[u32], count: usize, threads: usize) -> Vec<Vec<Hit>> {
        let unit = self.unit();
        let queries: Vec<E> =
            entities.iter().flat_map(|entity| unit.row(*entity as usize)).copied().collect();
        let own: Vec<&[u32]> = entities.iter().map(std::slice::from_ref).collect();
        top(unit, &queries, count, &own, threads)
    }

    /// A graph with the numbers that the model has given to entities and relations, and how many test triples
    /// have an entity or a relation that the model does not know. Such triples are left out.
    #[must_use]
    pub fn renumbered(&self, data: &Dataset) -> (Dataset, usize) {
        let names = (self.entities.names(), self.relations.names());
        data.renumbered(names, |name| self.entities.get(name), |name| self.relations.get(name))
    }

    /// The link prediction of these triples, and the value of each of its keys.
    pub fn ranking(
        &self,
        known: Arc<Known>,
        triples: &[Triple],
        threads: usize,
    ) -> (Ranking<E>, impl Fn(Key, &mut Vec<E>)) {
        let (entities, relations) = (self.entity.rows() as u64, self.relation.rows() as u64);
        let (first, second) = (entities, entities + relations);
        let reciprocals = self.reciprocal.as_ref().map(|_| second);
        let ranking = Ranking::new(known, triples, entities, (first, reciprocals), self.scorer, threads);
        let value = move |Key(key): Key, values: &mut Vec<E>| {
            let (table, at) = match &self.reciprocal {
                _ if key < first => (&self.entity, key),
                Some(reciprocal) if key >= second => (reciprocal, key - second),
                _ => (&self.relation, key - first),
            };
            values.extend_from_slice(table.row(at as usize));
            // Exports leave accumulators out.
            values.resize(values.len() + table.columns(), E::ZERO);
        };
        (ranking, value)
    }
}
