import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.WholeStageCodegenEvaluatorFactory;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.util.Right;

/**
 * Plans the scan of captures: the columns and rows that a query needs come from Python in pages, and
 * rows are made where Spark reads.
 *
 * Spark itself takes Arrow from sources in Python, reads every value of it through several virtual
 * calls, and copies each row once more than necessary. A page leaves out columns without values, and
 * has repeated texts once.
 *
 * Spark asks other sources for columns, but not those in Python. Its push-down of filters keeps them
 * for all later queries of the same DataFrame, and for other places of the same query, which then
 * lack rows. Here the source is opened again for one scan of a query, with the columns and filters of
 * that query in an option.
 */
public final class Paging extends SparkStrategy {
    private static final String SOURCE = "wireloom";

    private final DataSourceV2Strategy sparks;
    private final CodeAndComment code;

    public Paging(SparkSession session, String code) {
        this.code = new CodeAndComment(code, Map$.MODULE$.empty());
        sparks = new DataSourceV2Strategy(session);
    }

    // Spark's compiler knows no type arguments and no lambdas.
    public Seq apply(LogicalPlan plan) {
        LogicalPlan rest = plan;
        Project project = null;
        Filter filter = null;
        if (rest instanceof Project) {
            project = (Project) rest;
            rest = project.child();
        }
        if (rest instanceof Filter) {
            filter = (Filter) rest;
            rest = filter.child();
        }
        if (!(rest instanceof DataSourceV2ScanRelation)) {
            return Nil$.MODULE$;  // not ours: Spark asks the next strategy
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) rest;
        if (!(relation.scan() instanceof PythonScan)
                || !relation.relation().table().name().equals(SOURCE)) {
            return Nil$.MODULE$;
        }
        SparkPlan read;
        try {
            Seq columns = columns(project, filter, relation);
            if (Rows.kinds(columns) == null) {
                return Nil$.MODULE$;
            }
            CodeGenerator$.MODULE$.compile(code);  // where this fails, it would on workers
            read = read(columns, filter, relation);
        } catch (Exception problem) {
            log().warn("captures are read as Spark reads all sources in Python", problem);
            return Nil$.MODULE$;
        }
        if (filter != null) {
            read = new FilterExec(filter.condition(), read);
        }
        if (project != null && !project.projectList().equals(read.output())) {
            read = new ProjectExec(project.projectList(), read);
        }
        return Nil$.MODULE$.$colon$colon(read);
    }

    /** The columns that are needed, in the order of the query. */
    private static Seq columns(Project project, Filter filter, DataSourceV2ScanRelation relation) {
        if (project == null) {
            return relation.output();
        }
        List found = new ArrayList();
        for (Iterator each = project.projectList().iterator(); each.hasNext();) {
            add(found, ((Expression) each.next()).references(), relation);
        }
        if (filter != null) {
            add(found, filter.condition().references(), relation);
        }
        if (found.isEmpty()) {  // rows are only counted
            Object cheap = relation.output().head();
            for (Iterator each = relation.output().iterator(); each.hasNext();) {
                Attribute column = (Attribute) each.next();
                if (column.dataType() instanceof NumericType) {
                    cheap = column;
                    break;
                }
            }
            found.add(cheap);
        }
        return CollectionConverters.asScala(found).toSeq();
    }

    private static void add(List found, AttributeSet wanted, DataSourceV2ScanRelation relation) {
        for (Iterator each = wanted.iterator(); each.hasNext();) {
            Attribute column = (Attribute) each.next();
            // Otherwise it belongs to a query around this one, or is there already.
            if (relation.outputSet().contains(column) && !contains(found, column)) {
                found.add(column);
            }
        }
    }

    private static boolean contains(List found, Attribute column) {
        for (Object each : found) {
            if (((Attribute) each).exprId().equals(column.exprId())) {
                return true;
            }
        }
        return false;
    }

    /** What Spark plans for the relation, without the step that copies rows, and with pages. */
    private SparkPlan read(Seq columns, Filter filter, DataSourceV2ScanRelation relation)
            throws Exception {
        SparkPlan planned = (SparkPlan) sparks.apply(relation).head();
        if (planned instanceof ProjectExec) {
            planned = ((ProjectExec) planned).child();
        }
        List offered = new ArrayList();
        if (filter != null) {
            offer(filter.condition(), offered);
        }
        StructType page = new StructType().add("page", DataTypes.BinaryType, false);
        SparkPlan same = changed(planned, relation, columns, relation.scan());
        SparkPlan pages = changed(planned, relation,
            DataTypeUtils.toAttributes(page), opened(columns, offered, relation, page).build());
        return new Rows(columns, pages, "filtered before they are sent: " + offered, same, code);
    }

    /** A copy of Spark's step with other columns, and another scan. */
    private static SparkPlan changed(
            SparkPlan planned, DataSourceV2ScanRelation relation, Seq columns, Scan scan) {
        Object[] parts = new Object[planned.productArity()];
        int changed = 0;
        for (int index = 0; index < parts.length; index++) {
            Object part = planned.productElement(index);
            if (part == relation.output()) {
                part = columns;
                changed++;
            } else if (part == relation.scan()) {
                part = scan;
                changed++;
            }
            parts[index] = part;
        }
        if (changed != 2) {
            throw new IllegalStateException("Spark plans a scan of something else: " + planned);
        }
        return planned.makeCopy(parts);
    }

    /** The same captures opened again, with what this query needs. */
    private static ScanBuilder opened(
            Seq columns, List offered, DataSourceV2ScanRelation relation, StructType page)
            throws Exception {
        Map query = new HashMap();
        query.put("schema", DataTypeUtils.fromAttributes(columns).json());
        query.put("filters", offered);
        Map options = new HashMap(relation.relation().options().asCaseSensitiveMap());
        options.put("query", new ObjectMapper().writeValueAsString(query));
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(SOURCE);
        return new PythonScanBuilder(source, SOURCE, page, new CaseInsensitiveStringMap(options));
    }

    /** The part of a condition that the source understands; Spark checks every row again. */
    private static void offer(Expression condition, List found) {
        if (condition instanceof And) {
            offer(((And) condition).left(), found);
            offer(((And) condition).right(), found);
        } else if (condition instanceof IsNull) {
            add(found, "IsNull", ((IsNull) condition).child(), null, false);
        } else if (condition instanceof IsNotNull) {
            add(found, "IsNotNull", ((IsNotNull) condition).child(), null, false);
        } else if (condition instanceof StartsWith) {
            StartsWith test = (StartsWith) condition;
            add(found, "StartsWith", test.left(), plain(test.right()), true);
        } else if (condition instanceof In) {
            List values = new ArrayList();
            for (Iterator each = ((In) condition).list().iterator(); each.hasNext();) {
                values.add(plain((Expression) each.next()));
            }
            add(found, "In", ((In) condition).value(), values, true);
        } else if (condition instanceof InSet) {
            List values = new ArrayList();
            for (Iterator each = ((InSet) condition).hset().iterator(); each.hasNext();) {
                values.add(plain(each.next()));
            }
            add(found, "In", ((InSet) condition).child(), values, true);
        } else if (condition instanceof BinaryComparison && !(condition instanceof EqualNullSafe)) {
            BinaryComparison test = (BinaryComparison) condition;
            String kind = test.getClass().getSimpleName();
            if (test.left() instanceof Literal) {
                String turned = kind.startsWith("Less") ? kind.replace("Less", "Greater")
                    : kind.replace("Greater", "Less");
                add(found, turned, test.right(), plain(test.left()), true);
            } else {
                add(found, kind, test.left(), plain(test.right()), true);
            }
        }
    }

    private static void add(
            List found, String kind, Object column, Object value, boolean hasValue) {
        boolean isKnown = !hasValue || value != null
            && !(value instanceof List && ((List) value).contains(null));
        if (column instanceof Attribute && isKnown) {
            List filter = new ArrayList();
            filter.add(((Attribute) column).name());
            filter.add(kind);
            filter.add(value);
            found.add(filter);
        }
    }

    /** A value that means the same in Python: a text, an integer, or true; else null. */
    private static Object plain(Object value) {
        if (value instanceof Literal) {
            value = ((Literal) value).value();
        }
        if (value instanceof UTF8String) {
            return value.toString();
        }
        boolean isPlain = value instanceof Integer || value instanceof Long
            || value instanceof Boolean;
        return isPlain ? value : null;
    }

    /** Makes rows out of pages, with code that Spark compiles on workers as it does its own. */
    public static final class Rows extends SparkPlan {
        private final Seq output;
        private final SparkPlan child;
        private final String shown;
        private final SparkPlan same;
        private final CodeAndComment code;
        private scala.collection.immutable.Map metrics;

        public Rows(
                Seq output, SparkPlan child, String shown, SparkPlan same, CodeAndComment code) {
            this.output = output;
            this.child = child;
            this.shown = shown;  // where Spark explains a query
            this.same = same;
            this.code = code;
        }

        // Some steps send those below them to workers, which know no class of ours, to look at
        // their columns: then Spark's own step with the same ones replaces this. (Not private,
        // for Spark's compiler gives such methods other names.)
        public Object writeReplace() {
            return same;
        }

        /** The columns as PageRows.java has them; null if there is one that it does not have. */
        static int[] kinds(Seq columns) {
            int[] kinds = new int[columns.length()];
            int index = 0;
            for (Iterator each = columns.iterator(); each.hasNext();) {
                DataType type = ((Attribute) each.next()).dataType();
                int kind;
                if (type instanceof BooleanType) {
                    kind = 0;
                } else if (type instanceof IntegerType || type instanceof DateType) {
                    kind = 1;
                } else if (type instanceof LongType || type instanceof TimestampType
                        || type instanceof DoubleType) {
                    kind = 2;
                } else if (DataTypes.StringType.equals(type) || type instanceof BinaryType) {
                    kind = 3;
                } else if (type instanceof DecimalType) {
                    kind = ((DecimalType) type).precision() > Decimal.MAX_LONG_DIGITS() ? 4 : 5;
                } else if (type instanceof ArrayType
                        && DataTypes.StringType.equals(((ArrayType) type).elementType())) {
                    kind = 6;
                } else {
                    return null;
                }
                kinds[index++] = kind;
            }
            return kinds;
        }

        public Seq output() {
            return output;
        }

        public AttributeSet producedAttributes() {
            return outputSet();
        }

        public Seq children() {
            return Nil$.MODULE$.$colon$colon(child);
        }

        public TreeNode withNewChildrenInternal(IndexedSeq children) {
            return new Rows(output, (SparkPlan) children.head(), shown, same, code);
        }

        public scala.collection.immutable.Map metrics() {
            if (metrics == null) {
                metrics = (scala.collection.immutable.Map) Map$.MODULE$.empty()
                    .updated("numOutputRows",
                        SQLMetrics.createMetric(sparkContext(), "number of output rows"))
                    .updated("duration",
                        SQLMetrics.createTimingMetric(sparkContext(), "duration", -1L));
            }
            return metrics;
        }

        public RDD doExecute() {
            Object[] references = new Object[] {kinds(output), longMetric("numOutputRows")};
            return child.execute().mapPartitionsWithEvaluator(
                new WholeStageCodegenEvaluatorFactory(
                    new Right(code), longMetric("duration"), references),
                ClassTag$.MODULE$.apply(InternalRow.class));
        }

        public String nodeName() {
            return "RowsOfPages";
        }

        // Spark makes copies of what is a product, by its constructor.
        public int productArity() {
            return 3;
        }

        public Object productElement(int index) {
            return index == 0 ? output : index == 1 ? (Object) child : shown;
        }

        public Seq otherCopyArgs() {
            return Nil$.MODULE$.$colon$colon(code).$colon$colon(same);
        }

        public boolean canEqual(Object other) {
            return other instanceof Rows;
        }

        public boolean equals(Object other) {
            return other instanceof Rows && output.equals(((Rows) other).output)
                && child.equals(((Rows) other).child);
        }

        public int hashCode() {
            return 31 * output.hashCode() + child.hashCode();
        }
    }
}
