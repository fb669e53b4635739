//! Where the boxes of a drawing go.
//!
//! Columns from left to right: a box stands in the first column behind everything that comes before it. Within a column
//! boxes stand in the order that makes few arrows cross, and as close as they can to what they are joined with. An
//! arrow that goes over several columns has a bend in each of them, so that it passes between the boxes. What
//! no arrow touches stands below, in a grid.
//!
//! Everything follows from the order of nodes and edges, so the same graph gives the same drawing.

/// How far apart things are.
const COLUMN_GAP: f64 = 70.0;
const ROW_GAP: f64 = 16.0;
/// How far apart an arrow and its neighbours are, where it passes a column.
const BEND_GAP: f64 = 10.0;
/// Sweeps over all columns. More change little.
const SWEEPS: usize = 12;
/// With more bends than this, arrows go straight: a picture of that many is not looked at arrow by arrow.
const MAX_BENDS: usize = 20_000;

/// How large a box is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Where everything is.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The upper left corner of each box.
    pub(super) boxes: Vec<Point>,
    /// The points of each arrow: start, a pair for each column that it passes, end.
    pub(super) arrows: Vec<Vec<Point>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Places boxes. Edges are pairs of positions in `sizes`, and `order` names all positions so that every edge goes forward.
pub(super) fn layout(sizes: &[Size], edges: &[(usize, usize)], order: &[usize]) -> Layout {
    let ranks = ranks(sizes.len(), edges, order);
    let mut columns = Columns::new(sizes, edges, &ranks);
    columns.reorder();
    columns.place();
    columns.finish(sizes, edges)
}

/// The length of the longest way to each node.
fn ranks(count: usize, edges: &[(usize, usize)], order: &[usize]) -> Vec<usize> {
    let mut next = vec![Vec::new(); count];
    for &(from, to) in edges {
        next[from].push(to);
    }
    let mut ranks = vec![0; count];
    for &node in order {
        for &to in &next[node] {
            ranks[to] = ranks[to].max(ranks[node] + 1);
        }
    }
    ranks
}

/// A box or a bend of an arrow.
struct Item {
    /// What it joins in the columns before and behind.
    before: Vec<usize>,
    behind: Vec<usize>,
    height: f64,
    /// Its middle.
    y: f64,
    gap: f64,
}

/// Items in columns. The first items are the boxes.
struct Columns {
    items: Vec<Item>,
    columns: Vec<Vec<usize>>,
    /// What no arrow touches.
    alone: Vec<usize>,
    widths: Vec<f64>,
    /// The bends of each edge.
    bends: Vec<Vec<usize>>,
    ranks: Vec<usize>,
}

impl Columns {
    fn new(sizes: &[Size], edges: &[(usize, usize)], ranks: &[usize]) -> Columns {
        let item = |height, gap| Item { before: Vec::new(), behind: Vec::new(), height, y: 0.0, gap };
        let mut items: Vec<Item> = sizes.iter().map(|size| item(size.height, ROW_GAP)).collect();
        let wanted: usize = edges.iter().map(|&(from, to)| ranks[to] - ranks[from] - 1).sum();
        let mut joined = vec![false; sizes.len()];
        let mut columns = vec![Vec::new(); ranks.iter().max().map_or(0, |last| last + 1)];
        let mut bends = Vec::with_capacity(edges.len());
        let mut added: Vec<(usize, usize)> = Vec::new();
        for &(from, to) in edges {
            (joined[from], joined[to]) = (true, true);
            let mut last = from;
            let mut mine = Vec::new();
            if wanted <= MAX_BENDS {
                for rank in ranks[from] + 1..ranks[to] {
                    let bend = items.len();
                    items.push(item(0.0, BEND_GAP));
                    added.push((rank, bend));
                    items[last].behind.push(bend);
                    items[bend].before.push(last);
                    mine.push(bend);
                    last = bend;
                }
            }
            items[last].behind.push(to);
            items[to].before.push(last);
            bends.push(mine);
        }
        let mut alone = Vec::new();
        for (node, &rank) in ranks.iter().enumerate() {
            if joined[node] { columns[rank].push(node) } else { alone.push(node) }
        }
        for (rank, bend) in added {
            columns[rank].push(bend);
        }
        let widths = columns
            .iter()
            .map(|column| column.iter().filter_map(|&item| sizes.get(item)).fold(0.0, |w, s| s.width.max(w)))
            .collect();
        Columns { items, columns, alone, widths, bends, ranks: ranks.to_vec() }
    }

    /// Sorts each column by the mean place of what its items are joined with, forth and back, and keeps the best.
    fn reorder(&mut self) {
        let mut best = (self.crossings(), self.columns.clone());
        for sweep in 0..SWEEPS {
            let forth = sweep % 2 == 0;
            let mut place = self.places();
            let count = self.columns.len();
            for step in 1..count {
                let column = if forth { step } else { count - 1 - step };
                let mean = |item: usize| {
                    let joined = if forth { &self.items[item].before } else { &self.items[item].behind };
                    let sum: f64 = joined.iter().map(|&other| place[other]).sum();
                    if joined.is_empty() { place[item] } else { sum / joined.len() as f64 }
                };
                let mut keyed: Vec<(f64, usize)> =
                    self.columns[column].iter().map(|&item| (mean(item), item)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.columns[column] = keyed.into_iter().map(|(_, item)| item).collect();
                for (at, &item) in self.columns[column].iter().enumerate() {
                    place[item] = at as f64;
                }
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.columns.clone());
            }
        }
        self.columns = best.1;
    }

    /// The place of each item in its column.
    fn places(&self) -> Vec<f64> {
        let mut places = vec![0.0; self.items.len()];
        for column in &self.columns {
            for (at, &item) in column.iter().enumerate() {
                places[item] = at as f64;
            }
        }
        places
    }

    /// How many pairs of arrows cross between neighbouring columns: inversions, counted with a Fenwick tree.
    fn crossings(&self) -> u64 {
        let places = self.places();
        let mut total = 0;
        for column in &self.columns {
            let mut ends: Vec<(usize, usize)> = Vec::new();
            for (at, &item) in column.iter().enumerate() {
                ends.extend(self.items[item].behind.iter().map(|&other| (at, places[other] as usize)));
            }
            ends.sort_unstable();
            let size = ends.iter().map(|end| end.1).max().map_or(0, |last| last + 1);
            let mut tree = vec![0u64; size + 1];
            for (seen, &(_, end)) in ends.iter().enumerate() {
                let mut at = end + 1;
                let mut not_behind = 0;
                while at > 0 {
                    not_behind += tree[at];
                    at &= at - 1;
                }
                total += seen as u64 - not_behind;
                let mut at = end + 1;
                while at <= size {
                    tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
        }
        total
    }

    /// Gives each item its height in the drawing.
    fn place(&mut self) {
        for column in &self.columns {
            let mut y = 0.0;
            for &item in column {
                self.items[item].y = y + self.items[item].height / 2.0;
                y += self.items[item].height + self.items[item].gap;
            }
        }
        let count = self.columns.len();
        for sweep in 0..SWEEPS {
            for step in 0..count {
                let column = if sweep % 2 == 0 { step } else { count - 1 - step };
                self.settle(column);
            }
        }
    }

    /// Moves the items of a column to where their neighbours are, as near as their order and distances allow: the
    /// least sum of squares, found by merging what is too close into blocks that move as one.
    fn settle(&mut self, column: usize) {
        struct Block {
            /// Where the first of them would like to be, on average.
            at: f64,
            count: usize,
        }
        let column = &self.columns[column];
        let mut offsets = Vec::with_capacity(column.len());
        let mut blocks: Vec<Block> = Vec::new();
        let mut offset = 0.0;
        for (at, &item) in column.iter().enumerate() {
            if at > 0 {
                offset += self.distance(column[at - 1], item);
            }
            offsets.push(offset);
            let mine = &self.items[item];
            let joined = mine.before.iter().chain(&mine.behind);
            let (sum, count) =
                joined.fold((0.0, 0usize), |(sum, count), &other| (sum + self.items[other].y, count + 1));
            let wish = if count == 0 { mine.y } else { sum / count as f64 };
            let mut block = Block { at: wish - offset, count: 1 };
            while let Some(last) = blocks.pop_if(|last| last.at > block.at) {
                let count = last.count + block.count;
                block.at = (last.at * last.count as f64 + block.at * block.count as f64) / count as f64;
                block.count = count;
            }
            blocks.push(block);
        }
        let places = blocks.iter().flat_map(|block| std::iter::repeat_n(block.at, block.count));
        let placed: Vec<(usize, f64)> = column
            .iter()
            .zip(places)
            .zip(&offsets)
            .map(|((&item, at), offset)| (item, at + offset))
            .collect();
        for (item, y) in placed {
            self.items[item].y = y;
        }
    }

    fn distance(&self, upper: usize, lower: usize) -> f64 {
        let (upper, lower) = (&self.items[upper], &self.items[lower]);
        upper.height / 2.0 + lower.height / 2.0 + upper.gap.min(lower.gap).max(BEND_GAP)
    }

    fn finish(mut self, sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
        let placed = || self.columns.iter().flatten();
        let top = placed().map(|&item| self.items[item].y - self.items[item].height / 2.0);
        let top = top.min_by(f64::total_cmp).unwrap_or(0.0);
        let mut layout = Layout { boxes: vec![Point { x: 0.0, y: 0.0 }; sizes.len()], ..Layout::default() };
        let mut lefts = Vec::with_capacity(self.columns.len());
        let mut x = 0.0;
        for (column, width) in self.columns.iter().zip(&self.widths) {
            lefts.push(x);
            for &item in column {
                self.items[item].y -= top;
                if let Some(size) = sizes.get(item) {
                    let y = self.items[item].y - size.height / 2.0;
                    layout.boxes[item] = Point { x: x + (width - size.width) / 2.0, y };
                    layout.height = layout.height.max(y + size.height);
                }
                layout.height = layout.height.max(self.items[item].y);
            }
            layout.width = layout.width.max(x + width);
            x += width + COLUMN_GAP;
        }
        for (&(from, to), bends) in edges.iter().zip(&self.bends) {
            let mut points =
                vec![Point { x: layout.boxes[from].x + sizes[from].width, y: self.items[from].y }];
            for (step, &bend) in bends.iter().enumerate() {
                let column = self.ranks[from] + 1 + step;
                let y = self.items[bend].y;
                points.push(Point { x: lefts[column], y });
                points.push(Point { x: lefts[column] + self.widths[column], y });
            }
            points.push(Point { x: layout.boxes[to].x, y: self.items[to].y });
            layout.arrows.push(points);
        }
        self.grid(sizes, &mut layout);
        layout
    }

    /// What no arrow touches, in rows below the rest.
    fn grid(&self, sizes: &[Size], layout: &mut Layout) {
        if self.alone.is_empty() {
            return;
        }
        let area: f64 = self.alone.iter().map(|&node| (sizes[node].width + ROW_GAP) * 48.0).sum();
        // About as wide as a screen is in proportion to its height, and no narrower than the rest.
        let limit = layout.width.max((area * 1.6).sqrt()).max(600.0);
        let mut at =
            Point { x: 0.0, y: if layout.height > 0.0 { layout.height + 2.0 * ROW_GAP } else { 0.0 } };
        let mut row: f64 = 0.0;
        for &node in &self.alone {
            let size = sizes[node];
            if at.x > 0.0 && at.x + size.width > limit {
                at = Point { x: 0.0, y: at.y + row + ROW_GAP };
                row = 0.0;
            }
            layout.boxes[node] = at;
            layout.width = layout.width.max(at.x + size.width);
            row = row.max(size.height);
            layout.height = layout.height.max(at.y + size.height);
            at.x += size.width + ROW_GAP;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Size = Size { width: 100.0, height: 40.0 };

    fn laid_out(count: usize, edges: &[(usize, usize)]) -> Layout {
        let order: Vec<usize> = (0..count).collect();
        layout(&vec![BOX; count], edges, &order)
    }

    fn overlap(a: Point, b: Point) -> bool {
        (a.x - b.x).abs() < BOX.width && (a.y - b.y).abs() < BOX.height
    }

    #[test]
    fn arrows_go_to_the_right() {
        let edges = [(0, 1), (1, 2), (0, 2), (0, 3), (3, 2)];
        let layout = laid_out(4, &edges);
        for (from, to) in edges {
            assert!(layout.boxes[from].x + BOX.width < layout.boxes[to].x, "{layout:?}");
        }
    }

    #[test]
    fn boxes_do_not_overlap() {
        let mut edges = Vec::new();
        let mut seed = 7usize;
        for to in 1..60 {
            for _ in 0..2 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                edges.push(((seed >> 33) % to, to));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let layout = laid_out(70, &edges);
        for a in 0..70 {
            for b in 0..a {
                assert!(!overlap(layout.boxes[a], layout.boxes[b]), "{a} and {b}");
            }
        }
    }

    #[test]
    fn two_pairs_do_not_cross() {
        let layout = laid_out(4, &[(0, 3), (1, 2)]);
        let order = |a: usize, b: usize| layout.boxes[a].y < layout.boxes[b].y;
        assert_eq!(order(0, 1), order(3, 2));
    }

    #[test]
    fn a_chain_is_a_straight_line() {
        let layout = laid_out(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]);
        assert!(layout.boxes.iter().all(|place| place.y == 0.0), "{layout:?}");
    }

    #[test]
    fn what_nothing_touches_stands_below() {
        let layout = laid_out(3, &[(0, 1)]);
        assert!(layout.boxes[2].y > layout.boxes[0].y + BOX.height);
        assert!(laid_out(0, &[]).boxes.is_empty());
    }

    #[test]
    fn an_arrow_over_several_columns_keeps_clear_of_boxes() {
        let layout = laid_out(4, &[(0, 1), (1, 2), (2, 3), (0, 3)]);
        let arrow = &layout.arrows[3];
        assert_eq!(arrow.len(), 6);
        for node in [1, 2] {
            let place = layout.boxes[node];
            let inside = |point: &&Point| {
                point.x >= place.x
                    && point.x <= place.x + BOX.width
                    && point.y > place.y
                    && point.y < place.y + BOX.height
            };
            assert_eq!(arrow.iter().find(inside), None);
        }
    }
}
